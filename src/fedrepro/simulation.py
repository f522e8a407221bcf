"""Federated training from Python, on data and networks of your own or by name, and finished runs
with their weights."""

import functools
import logging
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

# names of a data set and of a network that were given themselves
ARRAYS, MODULE = "arrays", "module"
# key of the description of a data set of rows: the number of different tokens; 0: real numbers
TOKENS = "tokens"
log = logging.getLogger(__name__)

Chosen = str | Mapping[str, Any]  # a name, or {"name": ..., option: value}


class _Arguments(Frozen):
    seeds: Seeds
    clients: Count
    metrics: dict[str, Callable]
    on_round: Callable | None


@dataclass(frozen=True)
class Simulation:
    """What `simulate` returns."""

    log: "pandas.DataFrame"  # a row per seed and round
    clients: "pandas.DataFrame"  # a row per seed and client
    # seed -> trained network, as `LoadedRun.network`, on the processor
    models: dict[int, nn.Module]
    settings: dict[str, Any]  # all, with defaults written out

    @property
    def model(self) -> nn.Module:
        """The trained network of the first seed."""
        return next(iter(self.models.values()))

    def save(self, folder: Path | str) -> None:
        """Write model-<seed>.safetensors, log.csv, clients.csv and settings.json into a folder.
        Raises UserError."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for seed, model in self.models.items():
                weights = model.weights if isinstance(model, _Tested) else model.state_dict()
                copies = {
                    name: tensor.cpu().clone(memory_format=torch.contiguous_format)
                    for name, tensor in weights.items()
                }
                with files.atomic_write(folder / f"model-{seed}.safetensors") as path:
                    path.write_bytes(safetensors.torch.save(copies))
            self.log.to_csv(folder / "log.csv", index=False)
            self.clients.to_csv(folder / "clients.csv", index=False)
            files.write_json(folder / "settings.json", self.settings)
        except OSError as error:
            raise UserError(
                f"{folder}: cannot be written: {error.strerror}. Choose another folder"
            ) from None


def simulate(
    dataset: Chosen | tuple | list,
    *,
    partition: Chosen | Iterable = "iid",
    model: Chosen | nn.Module | Callable[[], nn.Module] = "mlp",
    algorithm: Chosen | type[FedAvg] = "fedavg",
    clients: int | None = None,
    rounds: int = 20,
    seeds: Iterable[int] = (0,),
    metrics: Mapping[str, Callable[[Tensor, Tensor], Any]] | None = None,
    on_round: Callable[["LoadedRun", Row], Any] | None = None,
    device: str = "auto",
    executor: str = "auto",
    data: Path | str | None = None,
    **settings: Any,
) -> Simulation:
    """Train a federation for each seed; return the trained networks and tables of rounds and
    clients.

    Args:
        dataset: a data set by name, or arrays or tensors (x, y, x_test, y_test): images uint8 or
            real, (N, C, H, W) or (N, H, W), tables (N, F) of real numbers, or tokens (N, L), whole
            numbers from 0; and labels (N,) from 0.
        partition: which client holds which images, with its options except the number of clients;
            or a list with the numbers of each client's training images.
        model: a network by name, a module that maps inputs to scores, or a function that makes one,
            whose initial weights then follow the seed.
        algorithm: the method, with its options: by name, or a subclass of
            `fedrepro.algorithms.FedAvg`.
        clients: their number; by default 10, or those that `partition` lists.
        metrics: further columns of the log: functions of the scores (N, classes) and labels (N,) of
            the test set.
        on_round: called with the run so far, of which `network` is the current one, and the round's
            row. If it returns True, the training of this seed ends.
        data: the folder of data sets that are used by name; by default that of the checkout around
            the working folder, else one in the user's cache.
        seeds: of the runs, distinct whole numbers from 0.
        settings: other settings of an experiment; by default all clients, at most 10, take part in
            a round, with one local epoch, batches of 20 and rate 0.1, and the server averages them
            weighted by their numbers of images, as McMahan et al. do; `weighting="uniform"` counts
            them equally, which is the default of experiments.

    A run that diverges ends there, with a warning. Ctrl-C ends the training: what is returned then
    ends with the last complete round. Torch is set up for repeatable results in this process: one
    thread, deterministic operations.

    Raises UserError, also for settings that do not suit the data.
    """
    numbers = np.asarray(seeds).tolist() if isinstance(seeds, np.ndarray | range) else seeds
    named, clients = _named_partition(partition, clients)
    arguments = parse(
        _Arguments,
        {"seeds": numbers, "clients": clients, "metrics": metrics or {}, "on_round": on_round},
        "simulate",
    )
    config, loaded = _prepare(
        dataset, named, model, algorithm, arguments.clients, rounds, settings, data
    )
    if taken := {"seed", "seconds", *columns(config)} & arguments.metrics.keys():
        raise UserError(
            f"simulate: metrics: {min(taken)} is a column of the log. Choose another name"
        )
    place = devices.acquire_device(device)
    assert place is not None  # without a limit it waits
    rows: list[Row] = []
    ended: dict[int, tuple[nn.Module, list[Row]]] = {}
    run: Any = None
    try:
        for seed in arguments.seeds:
            seeded = config.model_copy(update={"seed": seed})
            for run, row in _rounds(
                seeded, loaded, model, algorithm, place, executor, arguments.metrics
            ):
                rows.append(row)
                if (
                    on_round
                    and row["round"]
                    and isinstance(stop := on_round(run, row), bool | np.bool_)
                    and stop
                ):
                    break  # not for a number of bytes written, for example
            ended[seed] = _end(run)
    except BaseException as error:
        if not rows or not is_interrupt(error):
            raise
        log.warning(
            "simulate: stopped after round %d of %d, seed %d",
            rows[-1]["round"],
            config.rounds,
            rows[-1]["seed"],
        )
        ended[run.config.seed] = _end(run)
    stored = config.model_dump(mode="json", exclude={"seed"}) | {
        "seeds": list(arguments.seeds),
        "data": loaded.meta["identity"],
        "version": package_version(),
    }
    return Simulation(
        results.frame(rows),
        results.frame([row for _, part in ended.values() for row in part]),
        {seed: network for seed, (network, _) in ended.items()},
        stored,
    )


def _rounds(
    config: RunConfig,
    data: Dataset,
    model: Any,
    algorithm: Any,
    device: torch.device,
    executor: str,
    metrics: dict[str, Callable],
) -> Iterator[tuple["LoadedRun", Row]]:
    """Yield the run so far and its row, before round 1 and after each round."""
    naming, build = functools.partial(_naming, model, algorithm, data), None
    if not isinstance(model, str | Mapping):
        build = functools.partial(
            models.from_module,
            model,
            tuple(data.meta["shape"]),
            data.classes,
            tokens=data.meta.get(TOKENS, 0),
        )
    with naming("its start"):
        federation = Federation(
            config, data, partitions.for_run(config, data), device, executor, build=build
        )
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
        log.warning(
            "simulate: seed %d diverged in round %d. Its rows end there; try a lower lr",
            config.seed,
            state.round,
        )


def _measured(run: "LoadedRun", metrics: dict[str, Callable]) -> dict[str, float | None]:
    """Return the values of the user's metrics; None after a round that is not evaluated."""
    federation, state, config, values = (
        run.federation,
        run.state,
        run.config,
        dict.fromkeys(metrics),
    )
    if state.diverged or (state.round % config.evaluate_every and state.round < config.rounds):
        return values
    weights, data = (
        federation.algorithm.evaluation_weights(run.weights, state.server),
        federation.data,
    )
    for name, function in metrics.items():
        with (
            torch.no_grad(),
            user_code(
                f"simulate: metrics.{name}: on the scores and labels of {len(data.test_y)} images"
            ),
        ):
            scores = [
                federation.algorithm.forward(weights, x).logits
                for x in data.test_x.split(federation.chunk)
            ]
            values[name] = float(function(torch.cat(scores).cpu(), data.test_y.cpu()))
    return values


def _end(run: "LoadedRun") -> tuple[nn.Module, list[Row]]:
    """Return the network and a row for each client: its images, in total and of each class, its
    weight among all clients, and the accuracy of the global model on its part of the test set."""
    federation, data = run.federation, run.federation.data
    counts = run.partition.counts(data.train_y.cpu().numpy(), data.dataset.classes)
    scores = {client: accuracy for client, _, accuracy in accuracies(federation, run.state)}
    weights = federation.shares(counts.sum(1).tolist())
    return run.network.cpu(), [
        {
            "seed": run.config.seed,
            "client": client,
            "images": sum(row),
            "weight": weight,
            "accuracy": scores.get(client),
        }
        | {f"class_{label}": count for label, count in enumerate(row)}
        for client, (row, weight) in enumerate(zip(counts.tolist(), weights, strict=True))
    ]


def _naming(model: Any, algorithm: Any, data: Dataset, doing: str) -> AbstractContextManager:
    """Return a context in which any exception, if network or method are the user's, is a UserError
    that names them."""
    given = {
        "model": model,
        "algorithm": algorithm.get("name") if isinstance(algorithm, Mapping) else algorithm,
    }
    own = {kind: one for kind, one in given.items() if not isinstance(one, str | Mapping)}
    who = ", ".join(
        f"{kind} {getattr(one, '__name__', type(one).__name__)}" for kind, one in own.items()
    )
    where = f"{'rows' if TOKENS in data.meta else 'images'} of shape {tuple(data.meta['shape'])}"
    return user_code(f"simulate: {who}: {doing} fails, on {where}") if own else nullcontext()


def _named_partition(partition: Any, clients: Any) -> tuple[Any, Any]:
    """Return the settings of a partition, for lists of each client's images too, and the number of
    clients."""
    if isinstance(partition, str | Mapping):
        return partition, 10 if clients is None else clients
    with user_code(
        "simulate: partition: expected a name, {name: ..., option: value} or a list of each "
        "client's images"
    ):
        # masked numbers are None, which is refused
        listed = [np.asanyarray(part).tolist() for part in partition]
    return {"name": "listed", "images": listed}, len(listed) if clients is None else clients


def _prepare(
    dataset: Any,
    partition: Chosen,
    model: Any,
    algorithm: Any,
    clients: int,
    rounds: int,
    settings: dict,
    data: Path | str | None,
) -> tuple[RunConfig, Dataset]:
    """Return the settings, for seed 0, and the data set."""
    if "seed" in settings:
        raise UserError(f"simulate: seed: not a setting here. Pass seeds=[{settings['seed']}]")
    if isinstance(partition, Mapping) and "clients" in partition:
        raise UserError(
            f"simulate: partition.clients: not a setting here. Pass clients={partition['clients']}"
        )
    arrays = isinstance(dataset, tuple | list)
    own = {"dataset"} if arrays else set()
    own |= set() if isinstance(model, str | Mapping) else {"model"}
    loaded = _from_arrays(*dataset) if arrays else _provide(dataset, data)
    if loaded.meta.get(TOKENS) and "model" not in own:
        raise UserError(
            "simulate: model: none that has a name reads tokens. Pass a module, or a table of "
            "real numbers"
        )
    named = {
        "dataset": ARRAYS if "dataset" in own else dataset,
        "model": MODULE if "model" in own else model,
    }
    shared = {"clients": clients} | (
        {"name": partition} if isinstance(partition, str) else dict(partition)
    )
    values = {
        "clients_per_round": min(clients, 10),
        "local_epochs": 1,
        "batch_size": 20,
        "lr": 0.1,
        "weighting": "samples",
    }
    values |= {"pixel_scaling": "raw"} if loaded.train_x.is_floating_point() else {}
    values |= (
        named
        | {"partition": shared, "algorithm": _method(algorithm), "rounds": rounds, "seed": 0}
        | settings
    )
    return resolve(parse(RunConfig, values, "simulate"), own), loaded


def _method(algorithm: Any) -> dict[str, Any]:
    """Return the settings of a method; a class of the user's own becomes one that settings of this
    process can name."""
    options = dict(algorithm) if isinstance(algorithm, Mapping) else {"name": algorithm}
    if not isinstance(own := options.get("name"), str):
        if not (
            isinstance(own, type) and issubclass(own, FedAvg) and issubclass(own.Params, Frozen)
        ):
            raise UserError(
                "simulate: algorithm: expected a name or a subclass of fedrepro.algorithms.FedAvg, "
                f"with Params of fedrepro.config.types.Frozen (got {own!r})"
            )
        options["name"] = f"{own.__module__}.{own.__name__}"
        registry.OWN[options["name"]] = own
    return options


def _provide(dataset: Chosen, data: Path | str | None) -> Dataset:
    choice = parse(Choice, dataset, "simulate: dataset")
    return runner.provide_dataset(
        choice, Paths(data=data_folder() if data is None else Path(data)), data_mirror(None)
    )


def _from_arrays(*given: Any) -> Dataset:
    """Return a data set of four arrays or tensors. Raises UserError unless they are one."""
    if len(given) != 4:
        raise UserError(
            f"simulate: dataset: expected (x, y, x_test, y_test) (got {len(given)} values)"
        )
    with user_code("simulate: dataset: expected dense arrays or tensors of numbers"):
        train_x, train_y, test_x, test_y = map(_to_array, given)
    for x in (train_x, test_x):
        if (
            x.ndim == 4
            and x.shape[3] in (1, 3, 4)
            and min(x.shape[1:3]) > 4
            and (x.shape[1] == x.shape[2] or x.shape[3] == 3)
        ):
            raise UserError(
                f"simulate: dataset: images {x.shape}: channels seem to be last. Pass "
                f"np.moveaxis(x, 3, 1)"
            )
    if real := next((y.dtype for y in (train_y, test_y) if y.dtype.kind == "f"), None):
        raise UserError(
            f"simulate: dataset: labels {real}: only classes are learned. Pass whole numbers, as "
            f"y.astype(int)"
        )
    rows = {TOKENS: _count_tokens(train_x, test_x)} if train_x.ndim == test_x.ndim == 2 else {}
    train_x, test_x = (
        x.astype(np.float32) if x.dtype.kind == "f" or rows else x for x in (train_x, test_x)
    )
    train_x, test_x = (
        x[:, :, None, None] if rows else x[:, None] if x.ndim == 3 else x for x in (train_x, test_x)
    )
    classes = _prepared.count_classes("simulate: dataset", train_y, test_y)
    arrays = (train_x, train_y, test_x, test_y)
    _prepared.check(
        "simulate: dataset", arrays, classes, train_x.dtype == np.float32, train_x.shape[1:]
    )
    mean, std = _prepared.moments(train_x)
    meta = {
        "title": "own arrays",
        "source": "own",
        "official": False,
        "identity": _prepared.pixels_digest(arrays),
    }
    meta |= {"shape": train_x.shape[1 : 2 if rows else None], "mean": mean, "std": std} | rows
    x, y, x_test, y_test = (
        torch.tensor(array, dtype=None if array.ndim == 4 else torch.int64) for array in arrays
    )
    return Dataset(ARRAYS, x, y, x_test, y_test, classes, meta)


def _count_tokens(*rows: np.ndarray) -> int:
    """Return the number of tokens, 1 + the largest one, or 0 for rows of real numbers."""
    if all(part.dtype.kind == "f" for part in rows):
        return 0
    low, high = min(part.min(initial=0) for part in rows), max(part.max(initial=0) for part in rows)
    # which single precision has exactly
    if any(part.dtype.kind not in "iu" for part in rows) or low < 0 or high >= 2**24:
        raise UserError(
            "simulate: dataset: rows (N, F): expected real numbers, or tokens from 0 to "
            f"{2**24 - 1} (got {rows[0].dtype}, {low} to {high})"
        )
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
        """The network that was tested, in evaluation mode: a module of the user's own, which maps
        inputs to scores, else one that maps images to outputs with the field `logits`. That has no
        parameters if it needs more than its own weights (FedFusion), or its layers have grown
        (FedMA): see `weights`."""
        algorithm = self.federation.algorithm
        weights = algorithm.evaluation_weights(self.weights, self.state.server)
        own = algorithm.net.state_dict()
        if any(
            name not in own or own[name].shape != tensor.shape for name, tensor in weights.items()
        ):
            return _Tested(algorithm, weights).eval()
        return models.to_module(algorithm.net, weights)

    @property
    def partition(self) -> Partition:
        return self.federation.data.partition


def load_run(
    paper: str,
    experiment: str,
    series: str,
    seed: int = 0,
    scale: str = "paper",
    device: str = "cpu",
) -> LoadedRun:
    """Return a finished run of this repository: its weights, network, partition and settings.

    Raises UserError if there is no such run, or its weights are not here: committed results have
    none.
    """
    runs = results.runs(paper, experiment, scale)
    if series not in set(runs["series"]):
        raise unknown_name("series", series, list(dict.fromkeys(runs["series"])))
    names = {row["seed"]: row["run"] for row in runs.to_dict("records") if row["series"] == series}
    if seed not in names:
        raise UserError(
            f"{paper} {experiment}: {series}: no run with seed {seed}: choose from "
            f"{', '.join(map(str, names))}"
        )
    root, name = repository_root(), names[seed]
    path = root / "results" / "runs" / paper / name / "model.safetensors"
    if not path.exists():
        remedy = (
            f"Set use_kept_results: false in params.yaml and train the run: fedrepro train "
            f"{experiment} --scale {scale}"
        )
        raise UserError(f"{path}: the weights are not here. {remedy}")
    record = records.load(path.parent)
    config = parse(RunConfig, record["config"], str(path.parent))
    paths = Paths(data=root / "data")
    dataset = runner.provide_dataset(config.dataset, paths, data_mirror(None))
    partition = runner.provide_partition(config, record["data"], paths, data_mirror(None))
    federation = Federation(config, dataset, partition, devices.pick_device(device))
    return LoadedRun(config, federation.state_to_device(checkpoint.load(path, name)[0]), federation)
