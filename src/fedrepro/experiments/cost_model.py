"""Expected cost of a run: samples, floating-point operations, seconds on this machine, memory.
`cost.py` adds up several.

Operations are counted on the network itself and cached in `results/operations.json`. A training
step counts as three forward passes. A method that compares with a frozen network needs one more of
each image, or of each augmented image. Seconds are guessed from the operations of steps, and scaled
by what the most similar kept runs took relative to their guess.
"""

import contextlib
import copy
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from statistics import median

import torch

from fedrepro import algorithms, models
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice
from fedrepro.core import provenance, rng
from fedrepro.core.errors import UserError
from fedrepro.core.files import DELETE_ADVICE, read_json, write_json
from fedrepro.core.metrics import MEASURES
from fedrepro.data import datasets, partitions
from fedrepro.experiments import run_lookup
from fedrepro.experiments.jobs import Cost
from fedrepro.models import tasks
from fedrepro.runs import gather, records
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import executors
from fedrepro.training.evaluation import activations, flops
from fedrepro.training.state import CLIENT_BYTES

# cached of a network and its method
COUNT_FIELDS = {"operations", "trainings_per_round", "needs_reference", "weights", "activations"}
# The guess. A core does the more operations in a second the larger a step is: 2e10 of small dense
# layers, 1e11 of large convolutions. A GPU does a tenth of the some 5e13 that data sheets name for
# single precision, besides the time of a step. Operations in a second are the first number times a
# power of those of a step's forward pass.
CPU_SPEED, CPU_GROWTH = 6e8, 0.25
GPU_SPEED, GPU_STEP_SECONDS = 5e12, 2e-3
TRAINING_PASSES = 3  # a step forwards and backwards, in forward passes
RUN_START_SECONDS = 1.0  # building the network, recording its step, writing files
WORKER_START_SECONDS = 3.0  # importing torch
PROCESS_BYTES = {"cpu": 1.2e9, "cuda": 4.0e9}  # of a process that imports torch and records steps
STEP_COPIES = 8  # of weights and layer outputs in a step: gradients, momentum, results in between
# of the weights, for each client of a round: its update, its message, what its method keeps
CLIENT_COPIES = 3
NUMBER_BYTES = 4


# (hardware or "" for all, network, method, operations of a step), or its beginning -> median of
# seconds by guessed seconds
Ratios = Mapping[tuple, float]


class CountCache:
    """Counted operations, in a file that is read once and written by `save`."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.results / "operations.json"
        self._values = read_json(self._path) or {}
        self._saved = len(self._values)

    def get_or_compute(self, key: str, compute: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the value of a key, computed if it is missing. Raises UserError if the stored one
        lacks a field."""
        if key not in self._values:
            self._values[key] = compute()
        value = self._values[key]
        if not isinstance(value, dict) or not value.keys() >= COUNT_FIELDS:
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
    run: Run,
    cache: CountCache,
    executor: str,
    device: torch.device,
    ratios: Ratios,
    hardware: str = "",
    cores: int = 1,
) -> Cost:
    """Return the cost of a whole run, as if nothing of it were done.

    Args:
        executor: name, or auto.
        ratios: those of `kept_ratios`; if empty, seconds are guessed.
        hardware: whose kept runs come first; empty: those of all hardware count alike.
        cores: that the run's job has.
    """
    config = _without_pretraining(run.config)
    counts = network_counts(config, cache)
    forward, passes = counts["operations"], _forward_passes(config, counts)
    samples, evaluated = _images(config, counts["trainings_per_round"])

    picked = executors.pick(config, int(forward), device) if executor == "auto" else executor
    pooled = executors.uses_worker_pool(picked, device)
    workers = config.clients_per_round if pooled else 1
    # of a round's clients, which one core trains
    share_per_core = math.ceil(workers / cores) / workers
    training, evaluation = _guess(config, forward, picked, device)
    similar = next((key for key in _similarities(config, forward, hardware) if key in ratios), ())
    # a method's own kept runs took as long as all that only this method does
    training *= (
        _images(config)[0]
        if config.algorithm.name in similar[2:]
        else samples * passes / TRAINING_PASSES
    )
    seconds = RUN_START_SECONDS + WORKER_START_SECONDS * (share_per_core < 1)
    seconds += ratios.get(similar, 1) * (training * share_per_core + evaluation * evaluated)
    processes = 1 + min(workers, cores) * (share_per_core < 1)
    memory = processes * _process_bytes(config, counts, picked, device)
    return Cost(
        samples, evaluated, (passes * samples + evaluated) * forward, seconds, cores, memory
    )


def kept_ratios(paths: Paths, device: torch.device) -> Ratios:
    """Return how long kept runs took on such a device, by the guess: the median of all that are
    similar."""
    files = sorted((paths.results / "kept").glob(f"*{records.KEPT}"))
    kept = {
        file / name: record for file in files for name, record in records.load_kept(file).items()
    }
    # early code did not record operations: networks with as many weights have as many
    recorded = [record for record in kept.values() if "operations" in record["environment"]]
    operations = {record["weights"]: record["environment"]["operations"] for record in recorded}
    found: dict[tuple, list[float]] = defaultdict(list)
    for run in (run for file in files for run in run_lookup.begun_runs(file)):
        record = kept[run.folder]
        environment, seconds = record["environment"], gather.core_seconds(record)
        forward = operations.get(record["weights"])
        if (
            environment["device"] == device.type
            and record["status"] == "finished"
            and seconds
            and forward
        ):
            training, evaluation = _guess(run.config, forward, environment["executor"], device)
            samples, evaluated = _images(run.config)
            for key in _similarities(run.config, forward, environment["hardware"]):
                found[key].append(seconds / (samples * training + evaluated * evaluation))
    return {key: median(values) for key, values in found.items()}


def _similarities(config: RunConfig, forward: float, hardware: str) -> Iterator[tuple]:
    """Yield what a run has in common with others, most first: here, then on all hardware."""
    for place in dict.fromkeys((hardware, "")):
        key = (place, config.model.name, config.algorithm.name, config.batch_size * forward)
        yield from (key, key[:3], key[:2])
    yield ("",)


def _images(config: RunConfig, trainings: float = 1) -> tuple[float, float]:
    """Return the images that a run trains on, if a participant trains so many times in a round, and
    evaluates on."""
    _, train, test = datasets.extent(config.dataset)
    train_images, test_images = config.train_images or train, config.test_images or test
    held_out = partitions.validation_size(config.validation, train_images)
    client_images = partitions.mean_client_images(config.partition, train_images - held_out)
    client_tests = partitions.mean_client_images(config.partition, test_images)
    if config.validation and config.validation.per_client:
        client_tests += partitions.mean_client_images(config.partition, held_out)
    evaluations = config.rounds / config.evaluate_every

    # measures over all clients need evaluations, and trainings, of those that take no part in the
    # round
    models_of_all = {
        MEASURES[name].model for name in config.measures if MEASURES[name].over == "clients"
    }
    others = config.partition.options["clients"] - config.clients_per_round if models_of_all else 0
    client_evaluations = 2 * config.clients_per_round + len(models_of_all) * others
    evaluated = evaluations * (test_images + held_out + client_evaluations * client_tests)
    done = config.rounds * config.clients_per_round * trainings + evaluations * others * (
        "trained" in models_of_all
    )
    return done * config.local_epochs * client_images, evaluated


def _guess(
    config: RunConfig, forward: float, executor: str, device: torch.device
) -> tuple[float, float]:
    """Guess the seconds to train and to evaluate on an image, of whose forward pass the operations
    are given."""
    # of a step
    images = config.batch_size * (
        config.clients_per_round if executor.startswith(executors.Stacked.name) else 1
    )
    if device.type == "cuda":
        return (
            TRAINING_PASSES * forward / GPU_SPEED + GPU_STEP_SECONDS / images,
            forward / GPU_SPEED,
        )
    evaluate = forward / (CPU_SPEED * (images * forward) ** CPU_GROWTH)
    return TRAINING_PASSES * evaluate, evaluate


def _process_bytes(
    config: RunConfig, counts: Mapping[str, float], executor: str, device: torch.device
) -> float:
    """Return a rough upper bound of the memory of a process that trains a run: its images, the
    numbers of a step of stacked clients or of one, the updates of a round, and the states of
    clients up to the store's limit."""
    shape, train, test = datasets.extent(config.dataset)
    pixels = (
        (train + test)
        * math.prod(shape)
        * (NUMBER_BYTES if datasets.contents(config.dataset).real else 1)
    )
    client = counts["weights"] + config.batch_size * counts["activations"]
    stacked = config.clients_per_round if executor.startswith(executors.Stacked.name) else 1
    step = max(client, min(executors.STACK_NUMBERS, client * stacked))
    updates = config.clients_per_round * CLIENT_COPIES * counts["weights"] * NUMBER_BYTES
    states = min(
        CLIENT_BYTES, config.partition.options["clients"] * counts["weights"] * NUMBER_BYTES
    )
    return (
        PROCESS_BYTES[device.type]
        + 2 * pixels
        + STEP_COPIES * step * NUMBER_BYTES
        + updates
        + states
    )


def _forward_passes(config: RunConfig, counts: Mapping[str, float]) -> float:
    """Return the forward passes to which the training on one sample amounts."""
    return TRAINING_PASSES + counts["needs_reference"] / (
        1 if config.augment else config.local_epochs
    )


def _without_pretraining(config: RunConfig) -> RunConfig:
    """Start from random weights: pretrained ones need a download and change no speed."""
    if not config.model.options.get("pretrained"):
        return config
    model = {"name": config.model.name, **config.model.options, "pretrained": False}
    return config.model_copy(update={"model": Choice.model_validate(model)})


def network_counts(config: RunConfig, cache: CountCache) -> dict[str, float]:
    """Return the `COUNT_FIELDS` of a config.

    These are the operations of a forward pass, the local trainings of a participant in a round, 1
    if the method needs a frozen network, else 0, and the numbers in the network's weights and in an
    image's activations.
    """
    shape, _, _ = datasets.extent(config.dataset)
    classes = len(datasets.classes(config.dataset))
    choices = [
        choice.model_dump(mode="json") for choice in (config.model, config.algorithm, config.task)
    ]
    code = provenance.code_digest(provenance.modules(config))
    key = provenance.value_digest(
        [choices, shape, classes, code, torch.__version__, sorted(COUNT_FIELDS)]
    )
    return cache.get_or_compute(key, lambda: _count(config, shape, classes))


def _count(config: RunConfig, shape: tuple[int, int, int], classes: int) -> dict[str, float]:
    task, draw = tasks.create(config.task, classes), rng.generator(0, "estimate")
    # a method may change it
    net = copy.deepcopy(_network(config.model.model_dump_json(), shape, task.outputs))
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
    """Build the network of a choice given as JSON; the series of an experiment mostly share
    theirs."""
    return models.build(
        Choice.model_validate_json(choice), shape, outputs, rng.generator(0, "estimate")
    )
