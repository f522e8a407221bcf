"""A small federation on made images; every test of the training core starts from it."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import torch

from fedrepro import algorithms
from fedrepro.config import registry
from fedrepro.config.inheritance import merge
from fedrepro.config.params import RunConfig
from fedrepro.config.types import parse
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.data import partitions
from fedrepro.data.datasets import Dataset
from fedrepro.experiments.resolve import resolve
from fedrepro.runs.run import STEP_CACHE_FIELDS, Row, Run
from fedrepro.training import run
from fedrepro.training.evaluation import evaluate
from fedrepro.training.federation import Federation, State
from fedrepro.training.round import RoundExecution, run_round
from fedrepro.training.run import Limits

ALGORITHMS = registry.names("algorithms")
# of all kinds of state on clients and server; every method is stopped and continued in test_run.py
STATEFUL = (
    "fedavg",
    "fedbn",
    "fedcl",
    "fedcurv",
    "feddyn",
    "fedfusion",
    "fedma",
    "moon",
    "psi_net",
    "scaffold",
)
LIMITS = Limits()
RECORDINGS: dict[str, dict] = defaultdict(dict)
PLAIN = {
    "dataset": "digits",  # in name: the tests bring images of their own
    "partition": {"name": "iid", "clients": 4},
    "model": {"name": "mnist_cnn", "width": 0.05},
    "clients_per_round": 3,
    "rounds": 3,
    "local_epochs": 2,
    "batch_size": 8,
    "lr": 0.1,
    "precision": "float64",
    "algorithm": {"name": "fedavg"},
    "proxy": {"share": 0.1},
    "seed": 0,
}


def config(**changes) -> RunConfig:
    """A resolved run: `PLAIN` with changes laid over it, and over these batch normalisation, if the
    method asks for it."""
    plain = merge(PLAIN, changes)
    normalised = merge(plain, {"model": {"norm": "batch"}})
    return resolve(
        parse(RunConfig, normalised if not _fits(plain) and _fits(normalised) else plain, "test")
    )


def _fits(settings: dict) -> bool:
    """Whether the settings' method takes their network."""
    try:
        algorithms.check(resolve(parse(RunConfig, settings, "test")), 10)
    except UserError:
        return False
    return True


def uniform(*shape: int, seed: int = 0, **options) -> torch.Tensor:
    """Numbers between 0 and 1, the same ones in every process."""
    return torch.rand(*shape, generator=rng.generator(seed, "uniform"), **options)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers with mean 0 and variance 1, the same ones in every process."""
    return torch.randn(*shape, generator=rng.generator(seed, "normal"))


def images(
    train: int = 80, test: int = 40, shape: tuple[int, int, int] = (1, 12, 12), classes: int = 10
) -> Dataset:
    """Images that can be learned: one random picture per class, noise over it; the labels come in
    turn."""
    pictures = 192 * torch.randint(0, 2, (classes, *shape), generator=rng.generator(0, "pictures"))
    parts = []
    for name, count in (("train", train), ("test", test)):
        labels = torch.arange(count) % classes
        noise = torch.randint(0, 64, (count, *shape), generator=rng.generator(0, name))
        parts += [(pictures[labels] + noise).to(torch.uint8), labels]
    meta = {"mean": [0.5] * shape[0], "std": [0.2] * shape[0], "identity": "made"}
    meta |= {"title": "Made images", "source": "scikit-learn", "official": False}
    return Dataset("made", *parts, classes, meta)


def partition(config: RunConfig, dataset: Dataset) -> partitions.Partition:
    return partitions.for_run(config, dataset)


def federation(
    config: RunConfig,
    dataset: Dataset | None = None,
    executor: str = "auto",
    recordings: dict | None = None,
    cores: int = 1,
) -> Federation:
    """Steps are recorded once for all tests of a process, as they are for all runs of a job, unless
    `recordings` are given."""
    dataset = dataset or images()
    recordings = (
        RECORDINGS[config.model_dump_json(include=STEP_CACHE_FIELDS)]
        if recordings is None
        else recordings
    )
    return Federation(
        config,
        dataset,
        partition(config, dataset),
        torch.device("cpu"),
        executor,
        recordings,
        cores,
    )


def train_part(
    federation: Federation, client: int, round: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """The client's training images as its network sees them, and labels; without augmentation."""
    index = federation.data.train_index(client, round)
    return federation.data.images(index, client, None), federation.data.train_y[index]


def receive(federation: Federation, state: State) -> dict[str, torch.Tensor]:
    """What every participant of the round after `state` receives."""
    algorithm, server = federation.algorithm, federation.server_view(state)
    return algorithm.broadcast(
        state.weights, replace(server, state=algorithm.server_prepare(state.weights, server))
    )


def local(
    federation: Federation, received: dict, clients, round: int = 1, lr: float = 0.1
) -> list[tuple[dict, torch.Tensor]]:
    """Weights and mean loss of these clients after their local training in a round."""
    work = RoundExecution(federation, State(round - 1, {}, {}), {})
    task = work.create_task(received, lr=lr)
    batches = [work.client_batches(work.client(client, task), task) for client in clients]
    results = federation.executor.train(batches, lr, federation.algorithm.trained)
    return [(weights, loss) for weights, loss, _ in results]


def scores(
    federation: Federation, weights: dict, x: torch.Tensor, y: torch.Tensor
) -> tuple[float, float]:
    """Accuracy and loss of weights on labelled images."""
    names = ("test_accuracy", "test_loss")
    return tuple(
        evaluate(
            federation.algorithm, {name: MEASURES[name] for name in names}, weights, x, y
        ).values()
    )


def advance(federation: Federation, rounds: int | None = None) -> tuple[State, list[Row]]:
    """The state after so many rounds (all of them by default) and the rows from round 0 on."""
    state, row = federation.start()
    rows = [row]
    for _ in range(federation.config.rounds if rounds is None else rounds):
        state, row = run_round(federation, state)
        rows.append(row)
    return state, rows


def a_run(folder: Path, config: RunConfig) -> Run:
    return Run(folder, config, data="made", code="code")


def assert_close(left: dict, right: dict, tolerance: float) -> None:
    """The same tensors, relative to the largest of their values."""
    assert left.keys() == right.keys()
    for name in left:
        scale = max(1.0, float(right[name].abs().max()))
        assert float((left[name] - right[name]).abs().max()) <= tolerance * scale, name


def assert_same(left: dict, right: dict) -> None:
    """The same tensors to the bit."""
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def train(folder: Path, settings: RunConfig, limits: Limits | None = None) -> bool:
    return train_run(a_run(folder, settings), limits=limits or Limits())


def train_run(
    begun: Run,
    executor: str = "auto",
    snapshots: frozenset[int] = frozenset(),
    limits: Limits = LIMITS,
) -> bool:
    """Train a run on made images, by the steps that other tests of the process recorded."""
    dataset, recordings = images(), RECORDINGS[begun.step_cache_key]
    given = begun, dataset, partition(begun.config, dataset), torch.device("cpu"), limits
    return run.train(*given, executor, snapshots, recordings)


LONG = {"rounds": 40, "precision": "float32", "algorithm": {"name": "fedprox"}}
