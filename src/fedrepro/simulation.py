"""Federated training from Python, on data and networks of your own or by name, and finished runs with their weights."""

import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fedrepro import models, results
from fedrepro.algorithms.base import FedAvg, Weights
from fedrepro.config.params import RunConfig, data_mirror
from fedrepro.config.types import Choice, Count, Frozen, Seeds, parse
from fedrepro.core.errors import UserError, unknown_name, user_code
from fedrepro.data import partitions
from fedrepro.data.datasets import Dataset, _prepared
from fedrepro.data.partitions import Partition
from fedrepro.experiments.resolve import resolve
from fedrepro.models import Outputs
from fedrepro.runs import records
from fedrepro.runs.paths import Paths, repository_root
from fedrepro.runs.run import Row
from fedrepro.training import checkpoint, devices, runner
from fedrepro.training.federation import Federation
from fedrepro.training.round import run_round
from fedrepro.training.state import State

if TYPE_CHECKING:
    import pandas

ARRAYS, MODULE = "arrays", "module"  # names of a data set and of a network that were given themselves
log = logging.getLogger(__name__)

Chosen = str | Mapping[str, Any]  # a name, or {"name": ..., option: value}


class _Seeds(Frozen):
    seeds: Seeds


class _Clients(Frozen):
    clients: Count


class _Named(Frozen):
    dataset: Choice


def simulate(
    dataset: Chosen | tuple | list,
    *,
    partition: Chosen = "iid",
    model: Chosen | nn.Module | Callable[[], nn.Module] = "mlp",
    algorithm: Chosen = "fedavg",
    clients: int = 10,
    rounds: int = 20,
    seeds: Iterable[int] = (0,),
    on_round: Callable[[State, Row], Any] | None = None,
    device: str = "auto",
    executor: str = "auto",
    data: Path | str = "data",
    **settings: Any,
) -> "pandas.DataFrame":
    """Train a federation for each seed; return one row per seed and round: measures (0..1 or nats), loss, bytes, rate, seconds.

    Args:
        dataset: a data set by name, or arrays or tensors (x, y, x_test, y_test): images uint8 or real, (N, C, H, W) or
            (N, H, W), and labels (N,) from 0.
        partition: which client holds which images, with its options except the number of clients.
        model: a network by name, a module that maps images to scores, or a function that makes one, whose initial weights then
            follow the seed.
        algorithm: the method, with its options.
        on_round: called with the state after a round, which has the weights, and the round's row.
        data: the folder of data sets that are used by name.
        seeds: of the runs, distinct whole numbers from 0.
        settings: other settings of an experiment; by default all clients, at most 10, take part in a round, with one local
            epoch, batches of 20 and rate 0.1, and the server averages them weighted by their numbers of images, as McMahan et
            al. do; `weighting="uniform"` counts them equally, which is the default of experiments.

    A run that diverges ends there, with a warning. Torch is set up for repeatable results in this process: one thread,
    deterministic operations.

    Raises UserError, also for settings that do not suit the data.
    """
    rows: list[Row] = []
    given = np.asarray(seeds).tolist() if isinstance(seeds, np.ndarray | range) else seeds
    numbers = parse(_Seeds, {"seeds": given}, "simulate").seeds
    config, loaded = _prepare(dataset, partition, model, algorithm, clients, rounds, settings, Path(data))
    place = devices.acquire_device(device)
    assert place is not None  # without a limit it waits
    for seed in numbers:
        seeded = config.model_copy(update={"seed": seed})
        parts = partitions.for_run(seeded, loaded)
        with _naming(model, loaded, "its start"):
            federation = _federate(seeded, loaded, parts, model, place, executor)
            state, row = federation.start()
        rows.append({"seed": seed} | row)
        while state.round < config.rounds and not state.diverged:
            began = time.monotonic()
            with _naming(model, loaded, f"round {state.round + 1}"):
                state, row = run_round(federation, state)
            rows.append({"seed": seed} | row | {"seconds": time.monotonic() - began})
            if on_round:
                on_round(state, rows[-1])
        if state.diverged:
            log.warning("simulate: seed %d diverged in round %d. Its rows end there; try a lower lr", seed, state.round)
    return results.frame(rows)


def _naming(model: Any, data: Dataset, doing: str) -> AbstractContextManager:
    """Return a context in which any exception, if the network is the user's, is a UserError that names it."""
    if isinstance(model, str | Mapping):
        return nullcontext()
    name, shape = getattr(model, "__name__", type(model).__name__), tuple(data.train_x.shape[1:])
    return user_code(f"simulate: model {name}: {doing} fails, on images of shape {shape}")


def _prepare(
    dataset: Any, partition: Chosen, model: Any, algorithm: Chosen, clients: int, rounds: int, settings: dict, data: Path
) -> tuple[RunConfig, Dataset]:
    """Return the settings, for seed 0, and the data set."""
    if "seed" in settings:
        raise UserError(f"simulate: seed: not a setting here. Pass seeds=[{settings['seed']}]")
    if isinstance(partition, Mapping) and "clients" in partition:
        raise UserError(f"simulate: partition.clients: not a setting here. Pass clients={partition['clients']}")
    if not isinstance(partition, str | Mapping):
        remedy = "Write which client has which images into a CSV, for the partition listed"
        raise UserError(f'simulate: partition: expected a name, or {{"name": ..., option: value}}. {remedy}')
    arrays = isinstance(dataset, tuple | list)
    own = {"dataset"} if arrays else set()
    own |= set() if isinstance(model, str | Mapping) else {"model"}
    loaded = _from_arrays(*dataset) if arrays else _provide(dataset, data)
    named = {"dataset": ARRAYS if "dataset" in own else dataset, "model": MODULE if "model" in own else model}
    clients = parse(_Clients, {"clients": clients}, "simulate").clients
    shared = {"clients": clients} | ({"name": partition} if isinstance(partition, str) else dict(partition))
    values = {"clients_per_round": min(clients, 10), "local_epochs": 1, "batch_size": 20, "lr": 0.1, "weighting": "samples"}
    values |= {"pixel_scaling": "raw"} if loaded.train_x.is_floating_point() else {}
    values |= named | {"partition": shared, "algorithm": algorithm, "rounds": rounds, "seed": 0} | settings
    return resolve(parse(RunConfig, values, "simulate"), own), loaded


def _federate(
    config: RunConfig, data: Dataset, partition: Partition, model: Any, device: torch.device, executor: str
) -> Federation:
    build = None
    if not isinstance(model, str | Mapping):
        build = functools.partial(models.from_module, model, tuple(data.train_x.shape[1:]), data.classes)
    return Federation(config, data, partition, device, executor, build=build)


def _provide(dataset: Chosen, data: Path) -> Dataset:
    choice = parse(_Named, {"dataset": dataset}, "simulate").dataset
    return runner.provide_dataset(choice, Paths(data=data), data_mirror(None))


def _from_arrays(*given: Any) -> Dataset:
    """Return a data set of four arrays or tensors. Raises UserError unless they are one."""
    if len(given) != 4:
        raise UserError(f"simulate: dataset: expected (x, y, x_test, y_test) (got {len(given)} values)")
    with user_code("simulate: dataset: expected dense arrays or tensors of numbers"):
        train_x, train_y, test_x, test_y = map(_to_array, given)
    for x in (train_x, test_x):
        if x.ndim == 4 and x.shape[3] in (1, 3, 4) and min(x.shape[1:3]) > 4 and (x.shape[1] == x.shape[2] or x.shape[3] == 3):
            raise UserError(f"simulate: dataset: images {x.shape}: channels seem to be last. Pass np.moveaxis(x, 3, 1)")
    train_x, test_x = (x.astype(np.float32) if x.dtype.kind == "f" else x for x in (train_x, test_x))
    train_x, test_x = (x[:, None] if x.ndim == 3 else x for x in (train_x, test_x))
    classes = _prepared.count_classes("simulate: dataset", train_y, test_y)
    arrays = (train_x, train_y, test_x, test_y)
    _prepared.check("simulate: dataset", arrays, classes, train_x.dtype == np.float32, train_x.shape[1:])
    mean, std = _prepared.moments(train_x)
    meta = {"title": "own arrays", "source": "own", "official": False, "identity": _prepared.pixels_digest(arrays)}
    x, y, x_test, y_test = (torch.tensor(array, dtype=None if array.ndim == 4 else torch.int64) for array in arrays)
    return Dataset(ARRAYS, x, y, x_test, y_test, classes, meta | {"mean": mean, "std": std})


def _to_array(values: Any) -> np.ndarray:
    """Return numbers as a contiguous array in the machine's byte order; numpy has no bfloat16."""
    if isinstance(values, np.ma.MaskedArray):
        raise UserError("simulate: dataset: a mask would be lost. Pass values.filled(...)")
    if isinstance(values, Tensor):
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy(force=True)
    array = np.ascontiguousarray(values)
    return array.astype(array.dtype.newbyteorder("="))


class _Tested(nn.Module):
    """A method's outputs with given weights."""

    def __init__(self, algorithm: FedAvg, weights: Weights) -> None:
        super().__init__()
        self.algorithm, self.weights = algorithm, weights

    def forward(self, images: Tensor) -> Outputs:
        return self.algorithm.forward(self.weights, images)


@dataclass(frozen=True)
class LoadedRun:
    """A finished run in memory."""

    config: RunConfig
    state: State  # after the last round
    federation: Federation  # its data and method, to measure or to train on

    @property
    def weights(self) -> Weights:
        """The global weights and running statistics by name."""
        return self.state.weights

    @property
    def network(self) -> nn.Module:
        """The network that was tested, in evaluation mode; it maps inputs to outputs with the field `logits`. It has no
        parameters if it needs more than its own weights (FedFusion), or its layers have grown (FedMA): see `weights`."""
        algorithm = self.federation.algorithm
        weights = algorithm.evaluation_weights(self.weights, self.state.server)
        own = algorithm.net.state_dict()
        if any(name not in own or own[name].shape != tensor.shape for name, tensor in weights.items()):
            return _Tested(algorithm, weights).eval()
        algorithm.net.load_state_dict(weights, strict=False)
        return algorithm.net

    @property
    def partition(self) -> Partition:
        return self.federation.data.partition


def load_run(paper: str, experiment: str, series: str, seed: int = 0, scale: str = "paper", device: str = "cpu") -> LoadedRun:
    """Return a finished run of this repository: its weights, network, partition and settings.

    Raises UserError if there is no such run, or its weights are not here: committed results have none.
    """
    runs = results.runs(paper, experiment, scale)
    if series not in set(runs["series"]):
        raise unknown_name("series", series, list(dict.fromkeys(runs["series"])))
    names = {row["seed"]: row["run"] for row in runs.to_dict("records") if row["series"] == series}
    if seed not in names:
        raise UserError(f"{paper} {experiment}: {series}: no run with seed {seed}: choose from {', '.join(map(str, names))}")
    root, name = repository_root(), names[seed]
    path = root / "results" / "runs" / paper / name / "model.safetensors"
    if not path.exists():
        remedy = f"Set use_kept_results: false in params.yaml and train the run: fedrepro train {experiment} --scale {scale}"
        raise UserError(f"{path}: the weights are not here. {remedy}")
    record = records.load(path.parent)
    config = parse(RunConfig, record["config"], str(path.parent))
    paths = Paths(data=root / "data")
    dataset = runner.provide_dataset(config.dataset, paths, data_mirror(None))
    partition = runner.provide_partition(config, record["data"], paths, data_mirror(None))
    federation = Federation(config, dataset, partition, devices.pick_device(device))
    return LoadedRun(config, federation.state_to_device(checkpoint.load(path, name)[0]), federation)
