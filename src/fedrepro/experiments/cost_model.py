"""Expected cost of a run: samples, floating-point operations, seconds on this machine, memory. `cost.py` adds up several.

Operations are counted on the network itself. A training step counts as three forward passes. A method that compares with a
frozen network needs one more of each image, or of each augmented image. Times come from a short training, measured here for
each combination of code and of settings that a speed depends on. Both are cached in `results/speed.json`.
"""

import contextlib
import copy
import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from fedrepro import algorithms, models
from fedrepro.algorithms.base import ClientUpdate, Weights
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
from fedrepro.training.client_store import CLIENT_BYTES
from fedrepro.training.evaluation import activations, evaluate, flops
from fedrepro.training.federation import Federation
from fedrepro.training.round import RoundExecution

TIMED_STEPS = 2  # of each client
TIMED_TEST_IMAGES = (16, 300)  # at least and at most: as many as `TIMED_TEST_OPERATIONS` are enough for
TIMED_TEST_OPERATIONS = 1e11
LONG_SECONDS = 1.0  # from which on what the first call does once does not matter
# cached of a network and its method
COUNT_FIELDS = {"operations", "trainings_per_round", "needs_reference", "weights", "activations"}
SPEED_FIELDS = {"operations", "needs_reference", "train", "evaluate", "aggregate", "server_prepare"}  # cached of a measurement
# Settings that no speed depends on, and the data, which have a key of their own
SPEED_INDEPENDENT = {
    *("dataset", "train_images", "test_images", "partition", "seed"),
    *("rounds", "local_epochs", "evaluate_every", "lr", "schedule"),
}
# A rough guess of the speed of a core or a GPU without a measurement: enough to tell seconds from hours, as packing needs. A
# core does between the 1.3e11 of large convolutions and the 1e10 of small dense layers; a GPU a tenth of the some 5e13 that
# data sheets name for single precision
OPERATIONS_PER_SECOND = {"cpu": 5e10, "cuda": 5e12}
RUN_START_SECONDS = 1.0  # building the network, recording its step, writing files
WORKER_START_SECONDS = 3.0  # importing torch
STEP_SECONDS = 2e-3  # of a step, besides its operations
PROCESS_BYTES = {"cpu": 1.2e9, "cuda": 4.0e9}  # of a process that imports torch and records steps
STEP_COPIES = 8  # of weights and layer outputs in a step: gradients, momentum, results in between
CLIENT_COPIES = 3  # of the weights, for each client of a round: its update, its message, what its method keeps
NUMBER_BYTES = 4


@dataclass(frozen=True)
class Cost:
    """Cost of one run."""

    samples: float  # trained on
    evaluated: float  # samples evaluated on
    operations: float
    seconds: float  # for which its job reserves `cores`
    cores: int = 1
    memory: float = 0.0  # bytes of all its processes at once, at most


class SpeedCache:
    """Counted operations and measured speeds, in a file that is read once and written by `save`. Without `measured` speeds are
    left out, so that guesses are the same on every machine."""

    def __init__(self, paths: Paths, measured: bool = True) -> None:
        self._path, self._measured = paths.results / "speed.json", measured
        self._values = read_json(self._path) or {}
        self._saved = len(self._values)

    def __contains__(self, key: str) -> bool:
        return self._measured and key in self._values

    def get_or_compute(self, key: str, fields: set[str], compute: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the value of a key, computed if it is missing. Raises UserError if the stored one lacks `fields`."""
        if key not in self._values:
            self._values[key] = compute()
        value = self._values[key]
        if not isinstance(value, dict) or not value.keys() >= fields:
            raise UserError(f"{self._path}: damaged; {DELETE_ADVICE}")
        return value

    def save(self) -> None:
        if len(self._values) == self._saved:
            return
        with contextlib.suppress(OSError):  # without a cache it is computed again
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._values)
        self._saved = len(self._values)


def estimate(
    run: Run, cache: SpeedCache, executor: str, device: torch.device, measure: Callable[[], None] | None = None, cores: int = 1
) -> Cost:
    """Return the cost of a whole run, as if nothing of it were done.

    Args:
        executor: name, or auto.
        measure: called before an unknown speed is measured; without it the speed is guessed.
        cores: that the run's job has.
    """
    config = _without_pretraining(run.config)
    _, train, test = datasets.extent(config.dataset)
    train_images, test_images = config.train_images or train, config.test_images or test
    held_out = partitions.validation_size(config.validation, train_images)
    client_images = partitions.mean_client_images(config.partition, train_images - held_out)
    client_tests = partitions.mean_client_images(config.partition, test_images)
    if config.validation and config.validation.per_client:
        client_tests += partitions.mean_client_images(config.partition, held_out)
    tasks_done = config.rounds * config.clients_per_round
    evaluations = config.rounds / config.evaluate_every

    # measures over all clients need evaluations, and trainings, of those that take no part in the round
    models_of_all = {MEASURES[name].model for name in config.measures if MEASURES[name].over == "clients"}
    others = config.partition.options["clients"] - config.clients_per_round if models_of_all else 0
    client_evaluations = 2 * config.clients_per_round + len(models_of_all) * others
    evaluated = evaluations * (test_images + held_out + client_evaluations * client_tests)

    speed = speed_of(config, cache, executor, device, measure)
    trainings = tasks_done * speed.get("trainings_per_round", 1) + evaluations * others * ("trained" in models_of_all)
    samples = trainings * config.local_epochs * client_images
    proxy_images = config.rounds * partitions.proxy_size(config.proxy, train_images) if config.proxy else 0

    picked = _executor(config, speed["operations"], executor, device)
    pooled = executors.uses_worker_pool(picked, device)
    workers = config.clients_per_round if pooled else 1
    share_per_core = math.ceil(workers / cores) / workers  # of a round's clients, which one core trains
    seconds = RUN_START_SECONDS + WORKER_START_SECONDS * (share_per_core < 1) + samples * speed["train"] * share_per_core
    seconds += evaluated * speed["evaluate"] + tasks_done * speed["aggregate"] + proxy_images * speed["server_prepare"]
    operations = (_forward_passes(config, speed) * samples + evaluated) * speed["operations"]
    processes = 1 + min(workers, cores) * (share_per_core < 1)
    memory = processes * _process_bytes(config, speed, picked, device)
    return Cost(samples, evaluated, operations, seconds, cores, memory)


def _process_bytes(config: RunConfig, counts: Mapping[str, float], executor: str, device: torch.device) -> float:
    """Return a rough upper bound of the memory of a process that trains a run: its images, the numbers of a step of stacked
    clients or of one, the updates of a round, and the states of clients up to the store's limit."""
    shape, train, test = datasets.extent(config.dataset)
    pixels = (train + test) * math.prod(shape) * (NUMBER_BYTES if datasets.is_real(config.dataset) else 1)
    client = counts["weights"] + config.batch_size * counts["activations"]
    stacked = config.clients_per_round if executor.startswith(executors.Stacked.name) else 1
    step = max(client, min(executors.STACK_NUMBERS, client * stacked))
    updates = config.clients_per_round * CLIENT_COPIES * counts["weights"] * NUMBER_BYTES
    states = min(CLIENT_BYTES, config.partition.options["clients"] * counts["weights"] * NUMBER_BYTES)
    return PROCESS_BYTES[device.type] + 2 * pixels + STEP_COPIES * step * NUMBER_BYTES + updates + states


def _forward_passes(config: RunConfig, counts: Mapping[str, float]) -> float:
    """Return the forward passes to which the training on one sample amounts."""
    return 3 + counts["needs_reference"] / (1 if config.augment else config.local_epochs)


def _executor(config: RunConfig, forward: float, executor: str, device: torch.device) -> str:
    return executors.pick(config, int(forward), device) if executor == "auto" else executor


def _without_pretraining(config: RunConfig) -> RunConfig:
    """Start from random weights: pretrained ones need a download and change no speed."""
    if not config.model.options.get("pretrained"):
        return config
    model = {"name": config.model.name, **config.model.options, "pretrained": False}
    return config.model_copy(update={"model": Choice.model_validate(model)})


def speed_of(
    config: RunConfig, cache: SpeedCache, executor: str, device: torch.device, measure: Callable[[], None] | None
) -> dict[str, float]:
    """Return the speed of a config, measured or guessed.

    Its keys: `operations` of a forward pass; seconds to `train` and to `evaluate` on a sample, to `aggregate` a client and to
    `server_prepare` a proxy image; `needs_reference`, 1 if the method needs a frozen network, else 0;
    `trainings_per_round`, local trainings of a participant in a round, if there are several; the numbers in the network's
    `weights` and in an image's `activations`.
    """
    settings = config.model_dump(mode="json", exclude=SPEED_INDEPENDENT)
    code = provenance.code_digest(provenance.modules(config))
    environment = [datasets.key(config.dataset), provenance.hardware(device), torch.__version__]
    key = provenance.value_digest([executor, settings, code, environment, sorted(SPEED_FIELDS)])
    if key not in cache:
        if measure is None:
            return guess_speed(config, cache, executor, device)
        measure()
    speed = cache.get_or_compute(key, SPEED_FIELDS, lambda: measure_speed(config, cache, executor, device))
    cache.save()
    train = speed["train"] * _forward_passes(config, speed) / (3 + speed["needs_reference"])  # measured in one epoch
    return network_counts(config, cache) | speed | {"train": train}


def guess_speed(config: RunConfig, cache: SpeedCache, executor: str, device: torch.device) -> dict[str, float]:
    """Guess the speed of a config from its number of operations; surveys of the server's few images count for nothing."""
    counts = network_counts(config, cache)
    forward = counts["operations"]
    stacked = _executor(config, forward, executor, device).startswith(executors.Stacked.name)
    clients = config.clients_per_round if stacked else 1  # that share a step
    rate = OPERATIONS_PER_SECOND[device.type]
    train = _forward_passes(config, counts) * forward / rate + STEP_SECONDS / (config.batch_size * clients)
    return counts | {"train": train, "evaluate": forward / rate, "aggregate": STEP_SECONDS, "server_prepare": 0}


def network_counts(config: RunConfig, cache: SpeedCache) -> dict[str, float]:
    """Return the `COUNT_FIELDS` of a config, as in `speed_of`."""
    shape, _, _ = datasets.extent(config.dataset)
    classes = len(datasets.classes(config.dataset))
    choices = [choice.model_dump(mode="json") for choice in (config.model, config.algorithm, config.task)]
    code = provenance.code_digest(provenance.modules(config))
    key = provenance.value_digest([choices, shape, classes, code, torch.__version__, sorted(COUNT_FIELDS)])
    return cache.get_or_compute(key, COUNT_FIELDS, lambda: _count(config, shape, classes))


def _count(config: RunConfig, shape: tuple[int, int, int], classes: int) -> dict[str, float]:
    task, draw = tasks.create(config.task, classes), rng.generator(0, "estimate")
    net = copy.deepcopy(_network(config.model.model_dump_json(), shape, task.outputs))  # a method may change it
    method = algorithms.create(config.algorithm, net, draw, task)
    return {
        "operations": flops(method, shape),
        "trainings_per_round": method.trainings_per_round,
        "needs_reference": int(method.needs_reference),
        "weights": sum(tensor.numel() for tensor in method.net.state_dict().values()),
        "activations": activations(method, shape),
    }


@functools.lru_cache(maxsize=1)
def _network(choice: str, shape: tuple[int, int, int], outputs: int) -> models.Net:
    """Build the network of a choice given as JSON; the series of an experiment mostly share theirs."""
    return models.build(Choice.model_validate_json(choice), shape, outputs, rng.generator(0, "estimate"))


def measure_speed(config: RunConfig, cache: SpeedCache, executor: str, device: torch.device) -> dict[str, float]:
    """Time the second round of a short run on random pixels, since a method does in the first what it does only now and then.
    All clients of a round take part if they train together, else one."""
    federation = timing_federation(config, cache, executor, device)
    state = replace(federation.start()[0], round=1)
    algorithm, data, before = federation.algorithm, federation.data, federation.server_view(state)

    def survey() -> Weights:
        return algorithm.server_prepare(state.weights, before)

    server = replace(before, state=survey())
    received = algorithm.broadcast(state.weights, server)

    def train() -> list[ClientUpdate]:
        return list(RoundExecution(federation, state, {}).train(received))  # trains while it is consumed

    updates = train()

    def test() -> None:
        evaluate(algorithm, federation.measures, received, data.test_x, data.test_y, federation.chunk)

    return {
        "operations": federation.flops,
        "train": median_seconds(train, device) / sum(len(part) for part in data.partition.train),
        "evaluate": median_seconds(test, device) / len(data.test_x),
        "aggregate": median_seconds(lambda: algorithm.aggregate(state.weights, server, updates), device) / len(updates),
        "server_prepare": 0 if data.partition.proxy is None else median_seconds(survey, device) / len(data.partition.proxy),
        "trainings_per_round": algorithm.trainings_per_round,
        "needs_reference": int(algorithm.needs_reference),
    }


def timing_federation(config: RunConfig, cache: SpeedCache, executor: str, device: torch.device) -> Federation:
    """Return a federation with a few batches for each client, or fewer if it has fewer images, and one epoch. The server's
    proxy images are half of all: a hundredth of so few would be less than a batch."""
    shape, train, _ = datasets.extent(config.dataset)
    classes, real = len(datasets.classes(config.dataset)), datasets.is_real(config.dataset)
    available = math.ceil((config.train_images or train) / config.partition.options["clients"])
    draw, each = rng.generator(0, "estimate"), min(TIMED_STEPS * config.batch_size, available)

    def part(images: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.randint(0, 256, (images, *shape), dtype=torch.uint8, generator=draw)
        return pixels.float() if real else pixels, torch.arange(images) % classes

    proxy = config.proxy and config.proxy.model_copy(update={"share": 0.5})
    meta = {"mean": [0.5] * shape[0], "std": [0.2] * shape[0]}
    least, most = TIMED_TEST_IMAGES
    tests = int(min(max(TIMED_TEST_OPERATIONS / network_counts(config, cache)["operations"], least), most))

    def federation(clients: int) -> Federation:
        partition = Choice.model_validate({"name": "iid", "clients": clients})
        training = {"partition": partition, "clients_per_round": clients, "local_epochs": 1, "proxy": proxy, "validation": None}
        short = config.model_copy(update=training | {"train_images": None, "test_images": None})
        dataset = Dataset(config.dataset.name, *part(clients * each), *part(tests), classes, meta)
        return Federation(short, dataset, partitions.for_run(short, dataset), device, executor)

    full = federation(config.clients_per_round)
    return full if isinstance(full.executor, executors.Stacked) else federation(1)


def median_seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the median time of three calls; of the first call only if it is long, since the first does more."""

    def once() -> float:
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    first = once()
    return first if first > LONG_SECONDS else sorted(once() for _ in range(3))[1]
