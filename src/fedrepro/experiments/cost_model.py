"""What a run costs before it starts: samples, floating-point operations, seconds on this machine. `bill.py` adds them up.

Operations are counted on the network itself (a training step counts as three forward passes; where a method looks at a network
that does not change, one more of each image, or of each that augmentation makes); times come from a short training
measured here for each combination of code and of settings that a speed depends on. Both are remembered in `results/speed.json`.
"""

import contextlib
import copy
import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from fedrepro import algorithms, models
from fedrepro.algorithms.base import ClientUpdate, FedAvg, Weights
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice
from fedrepro.core import provenance, rng
from fedrepro.core.errors import UserError
from fedrepro.core.files import DELETE_ADVICE, read_json, write_json
from fedrepro.core.metrics import MEASURES
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import Dataset
from fedrepro.models import tasks
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import executors
from fedrepro.training.evaluation import flops, measured
from fedrepro.training.federation import Federation
from fedrepro.training.round import RoundExecution

STEPS = 2  # of each client that is timed
TESTS = (16, 300)  # images that are tested on: as many as `TESTED` operations are enough for, between these
TESTED = 1e11
LONG = 1.0  # seconds: so long that what the first call does beside its work is little of it
COUNTED = {"operations", "passes", "looks"}  # what is remembered of a network in its method
SPEEDS = {"operations", "looks", "train", "evaluate", "aggregate", "survey"}  # and of what was measured
# Settings that no speed depends on, and the data, which count by their own key
UNTIMED = {
    *("dataset", "train_images", "test_images", "partition", "seed"),
    *("rounds", "local_epochs", "evaluate_every", "lr", "schedule"),
}
# A rough guess of the speed of a core or a GPU, where nothing was measured: enough to tell seconds from hours, which is what
# packing asks. Operations in a second: a core's lies between the 1.3e11 of large convolutions and the 1e10 of small dense
# layers; a GPU's is a tenth of the some 5e13 that data sheets name for single precision
RATE = {"cpu": 5e10, "cuda": 5e12}
START = 1.0  # seconds of a run beside its rounds: its network, the recording of its step, its files
HELP = 3.0  # seconds until a helper is there: importing torch
CALL = 2e-3  # seconds that a step takes beside its operations


@dataclass(frozen=True)
class Cost:
    """Of one run: samples trained on and evaluated on, operations, and seconds for which its job reserves so many cores."""

    samples: float
    evaluated: float
    operations: float
    seconds: float
    cores: int = 1


class SpeedCache:
    """What was counted and measured here before, in a file that is read once and written by `save`; without what was `measured`
    guesses are the same on every machine."""

    def __init__(self, paths: Paths, measured: bool = True) -> None:
        self._path, self._measured = paths.results / "speed.json", measured
        self._values = read_json(self._path) or {}
        self._saved = len(self._values)

    def __contains__(self, key: str) -> bool:
        return self._measured and key in self._values

    def get_or_compute(self, key: str, parts: set[str], make: Callable[[], dict[str, float]]) -> dict[str, float]:
        """The value of a key, which has these parts; made where it is not known. Raises UserError where the file is damaged."""
        if key not in self._values:
            self._values[key] = make()
        found = self._values[key]
        if not isinstance(found, dict) or not found.keys() >= parts:
            raise UserError(f"{self._path}: damaged; {DELETE_ADVICE}")
        return found

    def save(self) -> None:
        if len(self._values) == self._saved:
            return
        with contextlib.suppress(OSError):  # what cannot be remembered is found out again
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._values)
        self._saved = len(self._values)


def estimate(
    run: Run, cache: SpeedCache, executor: str, device: torch.device, measure: Callable[[], None] | None = None, cores: int = 1
) -> Cost:
    """The whole run's cost, as if nothing of it were done, on so many cores. An unknown speed is guessed; where `measure` is
    given, that is called and the speed is measured."""
    config = _drawn(run.config)
    _, train, test = datasets.extent(config.dataset)
    share, tests = partitions.mean_client_images(config.partition, config.train_images or train), config.test_images or test
    trained = config.rounds * config.clients_per_round  # local trainings of participants
    beside = {MEASURES[name].model for name in config.measures if MEASURES[name].over == "clients"}
    others = config.partition.options["clients"] - config.clients_per_round if beside else 0
    evaluations = config.rounds / config.evaluate_every
    looked_at = tests + (2 * config.clients_per_round + len(beside) * others) * partitions.mean_client_images(
        config.partition, tests
    )
    evaluated = evaluations * looked_at
    speed = _speed(config, cache, executor, device, measure)
    trainings = trained * speed.get("passes", 1) + evaluations * others * ("trained" in beside)
    samples = trainings * config.local_epochs * share
    surveyed = config.rounds * partitions.proxy_size(config.proxy, config.train_images or train) if config.proxy else 0
    shared = executors.uses_worker_pool(_named(config, speed["operations"], executor, device), device)
    most = config.clients_per_round if shared else 1
    turns = math.ceil(most / cores) / most  # the share of the clients that are trained on the same core
    seconds = START + HELP * (turns < 1) + samples * speed["train"] * turns
    seconds += evaluated * speed["evaluate"] + trained * speed["aggregate"] + surveyed * speed["survey"]
    operations = (_forwards(config, speed) * samples + evaluated) * speed["operations"]
    return Cost(samples, evaluated, operations, seconds, cores)


def _forwards(config: RunConfig, counted: dict[str, float]) -> float:
    """Forward passes that a sample of the training costs."""
    return 3 + counted["looks"] / (1 if config.augment else config.local_epochs)


def _named(config: RunConfig, forward: float, executor: str, device: torch.device) -> str:
    return executors.pick(config, forward, device) if executor == "auto" else executor


def _drawn(config: RunConfig) -> RunConfig:
    """With a network that starts at random: known weights cost a download and change no speed."""
    if not config.model.options.get("pretrained"):
        return config
    return config.model_copy(update={"model": Choice(name=config.model.name, **config.model.options | {"pretrained": False})})


def _speed(
    config: RunConfig, known: SpeedCache, executor: str, device: torch.device, measure: Callable[[], None] | None
) -> dict[str, float]:
    """Forward operations, training seconds and evaluation seconds per sample, aggregation seconds per client, survey seconds
    per proxy image, and where a round is more than that how many local trainings it has."""
    settings, code = config.model_dump(mode="json", exclude=UNTIMED), provenance.code_digest(provenance.modules(config))
    about = [datasets.key(config.dataset), provenance.hardware(device), torch.__version__]
    key = provenance.value_digest([executor, settings, code, about, sorted(SPEEDS)])
    if key not in known:
        if measure is None:
            return _guess(config, known, executor, device)
        measure()
    found = known.get_or_compute(key, SPEEDS, lambda: _measure(config, known, executor, device))
    known.save()
    return found | {"train": found["train"] * _forwards(config, found) / (3 + found["looks"])}  # measured in one epoch


def _guess(config: RunConfig, known: SpeedCache, executor: str, device: torch.device) -> dict[str, float]:
    """As `_speed`, from the number of operations alone; a server's look at its few images counts for nothing."""
    counted = _counted(config, known)
    forward = counted["operations"]
    stacked = _named(config, forward, executor, device).startswith(executors.Stacked.name)
    together = config.clients_per_round if stacked else 1
    rate = RATE[device.type]
    train = _forwards(config, counted) * forward / rate + CALL / (config.batch_size * together)
    return counted | {"train": train, "evaluate": forward / rate, "aggregate": CALL, "survey": 0}


def _counted(config: RunConfig, known: SpeedCache) -> dict[str, float]:
    """Operations of an image's forward pass, and local trainings of a participant in a round."""
    shape, _, _ = datasets.extent(config.dataset)
    classes = len(datasets.classes(config.dataset))
    choices = [choice.model_dump(mode="json") for choice in (config.model, config.algorithm, config.task)]
    code = provenance.code_digest(provenance.modules(config))
    key = provenance.value_digest([choices, shape, classes, code, torch.__version__, sorted(COUNTED)])
    return known.get_or_compute(key, COUNTED, lambda: _count(config, shape, classes))


def _count(config: RunConfig, shape: tuple[int, ...], classes: int) -> dict[str, float]:
    method = _method(config, shape, classes)
    return {"operations": flops(method, shape), "passes": method.passes, "looks": int(method.needs_reference)}


def _method(config: RunConfig, shape: tuple[int, ...], classes: int) -> FedAvg:
    """A run's method around its network, as it is before anything is trained."""
    task, draw = tasks.create(config.task, classes), rng.generator(0, "estimate")
    net = copy.deepcopy(_network(config.model.model_dump_json(), shape, task.outputs))  # a method may change it
    return algorithms.create(config.algorithm, net, draw, task)


@functools.lru_cache(maxsize=1)
def _network(choice: str, shape: tuple[int, ...], outputs: int) -> models.Net:
    """What `models.build` makes of a choice in JSON; the series of an experiment mostly share theirs."""
    return models.build(Choice.model_validate_json(choice), shape, outputs, rng.generator(0, "estimate"))


def _measure(config: RunConfig, known: SpeedCache, executor: str, device: torch.device) -> dict[str, float]:
    """One short round of the run's own kind on random pixels: all its clients where they train together, else one of them. It
    is the second round: what a method does now and then, it does in the first."""
    federation = _short(config, known, executor, device)
    state = replace(federation.start()[0], round=1)
    algorithm, data, before = federation.algorithm, federation.data, federation.server_view(state)

    def survey() -> Weights:
        return algorithm.server_prepare(state.weights, before)

    server = replace(before, state=survey())
    received = algorithm.broadcast(state.weights, server)

    def train() -> list[ClientUpdate]:
        return list(RoundExecution(federation, state, {}).train(received))  # it trains as it is asked

    sent = train()

    def test() -> None:
        measured(algorithm, federation.measures, received, data.test_x, data.test_y, federation.chunk)

    return {
        "operations": federation.flops,
        "train": _seconds(train, device) / sum(len(part) for part in data.partition.train),
        "evaluate": _seconds(test, device) / len(data.test_x),
        "aggregate": _seconds(lambda: algorithm.aggregate(state.weights, server, sent), device) / len(sent),
        "survey": _seconds(survey, device) / len(data.partition.proxy) if config.proxy else 0,
        "passes": algorithm.passes,
        "looks": int(algorithm.needs_reference),
    }


def _short(config: RunConfig, known: SpeedCache, executor: str, device: torch.device) -> Federation:
    """A few batches for each client, one epoch; no more than it holds, where a batch is larger. Half as many for the server's
    own look, where it has one: of a hundredth of so few there would be no batch."""
    shape, train, _ = datasets.extent(config.dataset)
    classes, real = len(datasets.classes(config.dataset)), datasets.is_real(config.dataset)
    held = math.ceil((config.train_images or train) / config.partition.options["clients"])
    draw, each = rng.generator(0, "estimate"), min(STEPS * config.batch_size, held)

    def part(images: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.randint(0, 256, (images, *shape), dtype=torch.uint8, generator=draw)
        return pixels.float() if real else pixels, torch.arange(images) % classes

    proxy = config.proxy and config.proxy.model_copy(update={"share": 0.5})
    meta = {"mean": [0.5] * shape[0], "std": [0.2] * shape[0]}
    tests = int(min(max(TESTED / _counted(config, known)["operations"], TESTS[0]), TESTS[1]))

    def federation(clients: int) -> Federation:
        training = {"partition": Choice(name="iid", clients=clients), "clients_per_round": clients, "local_epochs": 1}
        short = config.model_copy(update=training | {"train_images": None, "test_images": None, "proxy": proxy})
        dataset = Dataset(config.dataset.name, *part(clients * each), *part(tests), classes, meta)
        return Federation(short, dataset, partitions.of_run(short, dataset), device, executor)

    whole = federation(config.clients_per_round)
    return whole if isinstance(whole.executor, executors.Stacked) else federation(1)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Median of three, after one that counts only where it is `LONG`."""

    def once() -> float:
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    first = once()
    return first if first > LONG else sorted(once() for _ in range(3))[1]
