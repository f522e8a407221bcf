"""Federated training from Python, on data and networks of your own or by name, and finished runs with their weights."""

import copy
import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from fedrepro import models, results
from fedrepro.algorithms.base import FedAvg, Weights
from fedrepro.config import registry
from fedrepro.config.params import RunConfig, data_mirror
from fedrepro.config.types import Choice, Count, Frozen, Seeds, parse
from fedrepro.core import files
from fedrepro.core.errors import UserError, is_interrupt, unknown_name, user_code
from fedrepro.core.version import package_version
from fedrepro.data import partitions
from fedrepro.data.datasets import Dataset, _prepared
from fedrepro.data.partitions import Partition
from fedrepro.experiments.resolve import resolve
from fedrepro.models import Outputs
from fedrepro.runs import records
from fedrepro.runs.paths import Paths, data_folder, repository_root
from fedrepro.runs.run import Row
from fedrepro.studies.clients import accuracies
from fedrepro.training import checkpoint, devices, runner
from fedrepro.training.federation import Federation, columns
from fedrepro.training.round import run_round
from fedrepro.training.state import State

if TYPE_CHECKING:
    import pandas

ARRAYS, MODULE = "arrays", "module"  # names of a data set and of a network that were given themselves
ROWS = "tokens"  # key of the description of a data set of rows: the number of different tokens; 0: real numbers
MAX_TOKEN = 2**24 - 1  # inputs are kept in single precision, which has all whole numbers up to here
log = logging.getLogger(__name__)

Chosen = str | Mapping[str, Any]  # a name, or {"name": ..., option: value}
Measured = Callable[[Tensor, Tensor], Any]  # maps the scores (N, classes) and labels (N,) of the test set to a number


class _Seeds(Frozen):
    seeds: Seeds


class _Clients(Frozen):
    clients: Count


class _Named(Frozen):
    dataset: Choice


@dataclass(frozen=True)
class Simulation:
    """What `simulate` returns."""

    log: "pandas.DataFrame"  # a row per seed and round
    clients: "pandas.DataFrame"  # a row per seed and client
    models: dict[int, nn.Module]  # seed -> trained network, as `LoadedRun.network`, on the processor
    settings: dict[str, Any]  # all, with defaults written out

    @property
    def model(self) -> nn.Module:
        """The trained network of the first seed."""
        return next(iter(self.models.values()))

    def save(self, folder: Path | str) -> None:
        """Write model-<seed>.safetensors, log.csv, clients.csv and settings.json into a folder. Raises UserError."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for seed, model in self.models.items():
                weights = model.weights if isinstance(model, _Tested) else model.state_dict()
                copies = {name: tensor.cpu().clone(memory_format=torch.contiguous_format) for name, tensor in weights.items()}
                with files.atomic_write(folder / f"model-{seed}.safetensors") as temporary:
                    temporary.write_bytes(safetensors.torch.save(copies))
            self.log.to_csv(folder / "log.csv", index=False)
            self.clients.to_csv(folder / "clients.csv", index=False)
            files.write_json(folder / "settings.json", self.settings)
        except OSError as error:
            raise UserError(f"{folder}: cannot be written: {error.strerror}. Choose another folder") from None


def simulate(
    dataset: Chosen | tuple | list,
    *,
    partition: Chosen | Iterable = "iid",
    model: Chosen | nn.Module | Callable[[], nn.Module] = "mlp",
    algorithm: Chosen | type[FedAvg] = "fedavg",
    clients: int | None = None,
    rounds: int = 20,
    seeds: Iterable[int] = (0,),
    metrics: Mapping[str, Measured] | None = None,
    on_round: Callable[["LoadedRun", Row], Any] | None = None,
    device: str = "auto",
    executor: str = "auto",
    data: Path | str | None = None,
    **settings: Any,
) -> Simulation:
    """Train a federation for each seed; return the trained networks and tables of rounds and clients.

    Args:
        dataset: a data set by name, or arrays or tensors (x, y, x_test, y_test): images uint8 or real, (N, C, H, W) or
            (N, H, W), tables (N, F) of real numbers, or tokens (N, L), whole numbers from 0; and labels (N,) from 0.
        partition: which client holds which images, with its options except the number of clients; or a list with the numbers of
            each client's training images.
        model: a network by name, a module that maps inputs to scores, or a function that makes one, whose initial weights then
            follow the seed.
        algorithm: the method, with its options: by name, or a subclass of `fedrepro.algorithms.FedAvg`.
        clients: their number; by default 10, or those that `partition` lists.
        metrics: further columns of the log: functions of the scores (N, classes) and labels (N,) of the test set.
        on_round: called with the run so far, of which `network` is the current one, and the round's row. If it returns True,
            the training of this seed ends.
        data: the folder of data sets that are used by name; by default that of the checkout around the working folder, else one
            in the user's cache.
        seeds: of the runs, distinct whole numbers from 0.
        settings: other settings of an experiment; by default all clients, at most 10, take part in a round, with one local
            epoch, batches of 20 and rate 0.1, and the server averages them weighted by their numbers of images, as McMahan et
            al. do; `weighting="uniform"` counts them equally, which is the default of experiments.

    A run that diverges ends there, with a warning. Ctrl-C ends the training: what is returned then ends with the last complete
    round. Torch is set up for repeatable results in this process: one thread, deterministic operations.

    Raises UserError, also for settings that do not suit the data.
    """
    given = np.asarray(seeds).tolist() if isinstance(seeds, np.ndarray | range) else seeds
    numbers = parse(_Seeds, {"seeds": given}, "simulate").seeds
    config, loaded = _prepare(dataset, partition, model, algorithm, clients, rounds, settings, data)
    metrics = _check_functions(metrics, on_round, config)
    place = devices.acquire_device(device)
    assert place is not None  # without a limit it waits
    rows: list[Row] = []
    members: list[Row] = []
    trained: dict[int, nn.Module] = {}
    run: LoadedRun | None = None
    try:
        for seed in numbers:
            seeded = config.model_copy(update={"seed": seed})
            naming = functools.partial(_naming, model, algorithm, loaded)
            for run, row in _rounds(seeded, loaded, model, place, executor, metrics, naming):
                rows.append(row)
                if row["round"] and on_round and _is_true(on_round(run, row)):
                    break
            assert run is not None  # there is round 0
            trained[seed], members, run = _finished(run), members + _clients(run), None
    except BaseException as error:
        if not rows or not is_interrupt(error):
            raise
        last = rows[-1]
        log.warning("simulate: stopped after round %d of %d, seed %d", last["round"], config.rounds, last["seed"])
        if run:
            trained[run.config.seed], members = _finished(run), members + _clients(run)
    stored = config.model_dump(mode="json", exclude={"seed"}) | {"seeds": list(numbers)}
    stored |= {"data": loaded.meta["identity"], "version": package_version()}
    return Simulation(results.frame(rows), results.frame(members), trained, stored)


def _rounds(
    config: RunConfig,
    data: Dataset,
    model: Any,
    device: torch.device,
    executor: str,
    metrics: Mapping[str, Measured],
    naming: Callable[[str], AbstractContextManager],
) -> Iterator[tuple["LoadedRun", Row]]:
    """Yield the run so far and its row, before round 1 and after each round."""
    build = None
    if not isinstance(model, str | Mapping):
        build = functools.partial(models.from_module, model, _shape(data), data.classes, tokens=data.meta.get(ROWS, 0))
    with naming("its start"):
        federation = Federation(config, data, partitions.for_run(config, data), device, executor, build=build)
        state, row = federation.start()
    run = LoadedRun(config, state, federation)
    yield run, {"seed": config.seed} | row | _measured(run, metrics)
    while state.round < config.rounds and not state.diverged:
        began = time.monotonic()
        with naming(f"round {state.round + 1}"):
            state, row = run_round(federation, state)
        seconds, run = time.monotonic() - began, LoadedRun(config, state, federation)
        yield run, {"seed": config.seed} | row | _measured(run, metrics) | {"seconds": seconds}
    if state.diverged:
        text = "simulate: seed %d diverged in round %d. Its rows end there; try a lower lr"
        log.warning(text, config.seed, state.round)


def _measured(run: "LoadedRun", metrics: Mapping[str, Measured]) -> dict[str, float | None]:
    """Return the values of the user's metrics; None after a round that is not evaluated."""
    federation, state, config = run.federation, run.state, run.config
    due = state.round % config.evaluate_every == 0 or state.round == config.rounds
    if not metrics or not due or state.diverged:
        return dict.fromkeys(metrics)
    weights = federation.algorithm.evaluation_weights(run.weights, state.server)
    with torch.no_grad():
        parts = [federation.algorithm.forward(weights, x).logits for x in federation.data.test_x.split(federation.chunk)]
    scores, labels, values = torch.cat(parts).cpu(), federation.data.test_y.cpu(), {}
    for name, function in metrics.items():
        with user_code(f"simulate: metrics.{name}: on scores {tuple(scores.shape)} and labels {tuple(labels.shape)}"):
            values[name] = float(function(scores, labels))
    return values


def _is_true(answer: Any) -> bool:
    """Return whether it is True, numpy's too, and no other value such as a number of bytes written."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _finished(run: "LoadedRun") -> nn.Module:
    return run.network.cpu()


def _clients(run: "LoadedRun") -> list[Row]:
    """Return a row for each client: its images, in total and of each class, its weight among all clients, and the accuracy of
    the global model on its part of the test set."""
    federation, seed = run.federation, run.config.seed
    index = [federation.data.train_index(client, max(1, run.state.round)) for client in range(federation.clients)]
    scores = {client: accuracy for client, _, accuracy in accuracies(federation, run.state)}
    rows = []
    for client, weight in enumerate(federation.shares([len(images) for images in index])):
        row = {"seed": seed, "client": client, "images": len(index[client]), "weight": weight}
        counts = enumerate(federation.data.counts(index[client]).tolist())
        rows.append(row | {"accuracy": scores.get(client, math.nan)} | {f"class_{label}": count for label, count in counts})
    return rows


def _naming(model: Any, algorithm: Any, data: Dataset, doing: str) -> AbstractContextManager:
    """Return a context in which any exception, if network or method are the user's, is a UserError that names them."""
    method = algorithm.get("name") if isinstance(algorithm, Mapping) else algorithm
    named = [] if isinstance(model, str | Mapping) else [f"model {getattr(model, '__name__', type(model).__name__)}"]
    named += [f"algorithm {method.__name__}"] if isinstance(method, type) else []
    kind = "rows" if ROWS in data.meta else "images"
    where = f"simulate: {', '.join(named)}: {doing} fails, on {kind} of shape {_shape(data)}"
    return user_code(where) if named else nullcontext()


def _shape(data: Dataset) -> tuple[int, ...]:
    """Return the shape of an input of the user's network."""
    return tuple(data.train_x.shape[1:2] if ROWS in data.meta else data.train_x.shape[1:])


def _check_functions(metrics: Any, on_round: Any, config: RunConfig) -> Mapping[str, Measured]:
    """Return the metrics. Raises UserError unless they, and `on_round`, can be called, and have names that are no columns."""
    metrics = {} if metrics is None else metrics
    if not isinstance(metrics, Mapping) or not all(isinstance(name, str) and callable(metrics[name]) for name in metrics):
        raise UserError("simulate: metrics: expected {name: function of scores and labels}")
    if taken := {"seed", "seconds", *columns(config)} & metrics.keys():
        raise UserError(f"simulate: metrics: {min(taken)} is a column of the log. Choose another name")
    if on_round is not None and not callable(on_round):
        raise UserError(f"simulate: on_round: expected a function of the run and the round's row (got {on_round!r})")
    return metrics


def _prepare(
    dataset: Any,
    partition: Any,
    model: Any,
    algorithm: Any,
    clients: int | None,
    rounds: int,
    settings: dict,
    data: Path | str | None,
) -> tuple[RunConfig, Dataset]:
    """Return the settings, for seed 0, and the data set."""
    if "seed" in settings:
        raise UserError(f"simulate: seed: not a setting here. Pass seeds=[{settings['seed']}]")
    if isinstance(partition, Mapping) and "clients" in partition:
        raise UserError(f"simulate: partition.clients: not a setting here. Pass clients={partition['clients']}")
    if not isinstance(partition, str | Mapping):
        with user_code("simulate: partition: expected a name, {name: ..., option: value} or a list of each client's images"):
            partition = {"name": "listed", "images": [np.asarray(part).tolist() for part in partition]}
        clients = len(partition["images"]) if clients is None else clients
    arrays = isinstance(dataset, tuple | list)
    own = {"dataset"} if arrays else set()
    own |= set() if isinstance(model, str | Mapping) else {"model"}
    loaded = _from_arrays(*dataset) if arrays else _provide(dataset, data)
    if loaded.meta.get(ROWS) and "model" not in own:
        raise UserError("simulate: model: none that has a name reads tokens. Pass a module, or a table of real numbers")
    named = {"dataset": ARRAYS if "dataset" in own else dataset, "model": MODULE if "model" in own else model}
    clients = parse(_Clients, {"clients": 10 if clients is None else clients}, "simulate").clients
    shared = {"clients": clients} | ({"name": partition} if isinstance(partition, str) else dict(partition))
    values = {"clients_per_round": min(clients, 10), "local_epochs": 1, "batch_size": 20, "lr": 0.1, "weighting": "samples"}
    values |= {"pixel_scaling": "raw"} if loaded.train_x.is_floating_point() else {}
    values |= named | {"partition": shared, "algorithm": _method(algorithm), "rounds": rounds, "seed": 0} | settings
    return resolve(parse(RunConfig, values, "simulate"), own), loaded


def _method(algorithm: Any) -> Any:
    """Return the settings of a method; a class of the user's own is registered under its name."""
    chosen = dict(algorithm) if isinstance(algorithm, Mapping) else {"name": algorithm}
    own = chosen.get("name")
    if isinstance(own, str):
        return algorithm
    if not (isinstance(own, type) and issubclass(own, FedAvg) and issubclass(own.Params, Frozen)):
        expected = "a name or a subclass of fedrepro.algorithms.FedAvg, whose Params are one of fedrepro.config.types.Frozen"
        raise UserError(f"simulate: algorithm: expected {expected} (got {own!r})")
    return chosen | {"name": registry.register("algorithms", own)}


def _provide(dataset: Chosen, data: Path | str | None) -> Dataset:
    choice = parse(_Named, {"dataset": dataset}, "simulate").dataset
    return runner.provide_dataset(choice, Paths(data=data_folder() if data is None else Path(data)), data_mirror(None))


def _from_arrays(*given: Any) -> Dataset:
    """Return a data set of four arrays or tensors. Raises UserError unless they are one."""
    if len(given) != 4:
        raise UserError(f"simulate: dataset: expected (x, y, x_test, y_test) (got {len(given)} values)")
    with user_code("simulate: dataset: expected dense arrays or tensors of numbers"):
        train_x, train_y, test_x, test_y = map(_to_array, given)
    for x in (train_x, test_x):
        if x.ndim == 4 and x.shape[3] in (1, 3, 4) and min(x.shape[1:3]) > 4 and (x.shape[1] == x.shape[2] or x.shape[3] == 3):
            raise UserError(f"simulate: dataset: images {x.shape}: channels seem to be last. Pass np.moveaxis(x, 3, 1)")
    if real := next((y.dtype for y in (train_y, test_y) if y.dtype.kind == "f"), None):
        raise UserError(f"simulate: dataset: labels {real}: only classes are learned. Pass whole numbers, as y.astype(int)")
    rows = {ROWS: _count_tokens(train_x, test_x)} if train_x.ndim == test_x.ndim == 2 else {}
    train_x, test_x = (x.astype(np.float32) if x.dtype.kind == "f" or rows else x for x in (train_x, test_x))
    train_x, test_x = (x[:, None] if x.ndim == 3 else x for x in (train_x, test_x))
    train_x, test_x = (x[:, :, None, None] if rows else x for x in (train_x, test_x))
    classes = _prepared.count_classes("simulate: dataset", train_y, test_y)
    arrays = (train_x, train_y, test_x, test_y)
    _prepared.check("simulate: dataset", arrays, classes, train_x.dtype == np.float32, train_x.shape[1:])
    mean, std = _prepared.moments(train_x)
    meta = {"title": "own arrays", "source": "own", "official": False, "identity": _prepared.pixels_digest(arrays)}
    x, y, x_test, y_test = (torch.tensor(array, dtype=None if array.ndim == 4 else torch.int64) for array in arrays)
    return Dataset(ARRAYS, x, y, x_test, y_test, classes, meta | {"mean": mean, "std": std} | rows)


def _count_tokens(*rows: np.ndarray) -> int:
    """Return the number of tokens, 1 + the largest one, or 0 for rows of real numbers."""
    if all(part.dtype.kind == "f" for part in rows):
        return 0
    low, high = min(part.min(initial=0) for part in rows), max(part.max(initial=0) for part in rows)
    if any(part.dtype.kind not in "iu" for part in rows) or low < 0 or high > MAX_TOKEN:
        got = f"{rows[0].dtype} and {rows[1].dtype}, {low} to {high}"
        raise UserError(f"simulate: dataset: rows (N, F): expected real numbers, or tokens from 0 to {MAX_TOKEN} (got {got})")
    return int(high) + 1


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
        """The network that was tested, in evaluation mode: a module of the user's own, which maps inputs to scores, else one
        that maps images to outputs with the field `logits`. That has no parameters if it needs more than its own weights
        (FedFusion), or its layers have grown (FedMA): see `weights`."""
        algorithm = self.federation.algorithm
        weights = algorithm.evaluation_weights(self.weights, self.state.server)
        net = copy.deepcopy(algorithm.net)
        own = net.state_dict()
        if any(name not in own or own[name].shape != tensor.shape for name, tensor in weights.items()):
            return _Tested(algorithm, weights).eval()
        net.load_state_dict(weights, strict=False)
        return models.to_module(net) if net.own else net

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
