"""What a piece of work costs before it starts: runs, samples, floating-point operations, hours on this machine.

Operations are counted on the network itself (a training step counts as three forward passes); times come from a short training
measured here for each combination of network, method, cohort and batch, remembered in `results/speed.json`.
"""

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from fedrepro import algorithms, datasets, models, partitions, provenance, rng, studying, tasks
from fedrepro.algorithms.base import Sent
from fedrepro.config import Choice, Params, RunConfig
from fedrepro.datasets import Dataset
from fedrepro.engine import executors
from fedrepro.engine.evaluation import flops, measured
from fedrepro.engine.federation import Federation
from fedrepro.engine.round import Round
from fedrepro.engine.run import Run, pick_device
from fedrepro.experiments import Paths, Planned
from fedrepro.files import replacing

STEPS = 2  # of each client that is timed
TESTS = 300  # images
# A rough guess of one core's speed, where nothing was measured: enough to tell seconds from hours, which is what packing asks.
RATE = 5e10  # operations in a second: between the 1.3e11 of large convolutions and the 1e10 of small dense layers
CALL = 2e-3  # seconds that a step takes beside its operations


@dataclass(frozen=True)
class Cost:
    """Of one run: samples trained on, samples evaluated on, operations, seconds."""

    samples: float
    evaluated: float
    operations: float
    seconds: float


def cost(run: Run, paths: Paths, executor: str, device: torch.device, measure: bool = True) -> Cost:
    """The whole run's cost, as if nothing of it were done. Without `measure`, a speed that is not known yet is guessed."""
    config = run.config
    _, train, test = datasets.extent(config.dataset)
    clients = config.partition.options["clients"]
    share, tests = (config.train_images or train) / clients, config.test_images or test
    trained = config.rounds * config.clients_per_round  # local trainings
    samples = trained * config.local_epochs * share
    evaluated = config.rounds / config.evaluate_every * (1 + 2 * config.clients_per_round / clients) * tests
    speed = _speed(config, paths, executor, device, measure)
    seconds = samples * speed["train"] + evaluated * speed["evaluate"] + trained * speed["aggregate"]
    return Cost(samples, evaluated, (3 * samples + evaluated) * speed["operations"], seconds)


def _speed(config: RunConfig, paths: Paths, executor: str, device: torch.device, measure: bool) -> dict[str, float]:
    """Forward operations, training seconds and evaluation seconds per sample, aggregation seconds per client."""
    choices = [choice.model_dump() for choice in (config.model, config.algorithm)]
    settings = [config.clients_per_round, config.batch_size, config.precision, config.momentum, config.augment]
    about = [datasets.key(config.dataset), provenance.environment(device)["hardware"], torch.__version__]
    key = provenance.digest([executor, settings, choices, about])
    path = paths.results / "speed.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if key not in known and not measure:
        return _guess(config, executor)
    if key not in known:
        known[key] = _measure(config, executor, device)
        with contextlib.suppress(OSError):  # what cannot be remembered is measured again
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known[key]


def _guess(config: RunConfig, executor: str) -> dict[str, float]:
    """As `_speed`, from the number of operations alone."""
    forward = _forward(*(getattr(config, kind).model_dump_json() for kind in ("dataset", "model", "algorithm", "task")))
    name = executors.pick(config, forward) if executor == "auto" else executor
    together = config.clients_per_round if name.startswith(executors.Stacked.name) else 1
    train = 3 * forward / RATE + CALL / (config.batch_size * together)
    return {"operations": forward, "train": train, "evaluate": forward / RATE, "aggregate": CALL}


@functools.cache
def _forward(*choices: str) -> int:
    """Operations of an image's forward pass; data set, model, algorithm and task as JSON, which can be remembered."""
    dataset, model, algorithm, task = map(Choice.model_validate_json, choices)
    shape, _, _ = datasets.extent(dataset)
    task, draw = tasks.create(task, len(datasets.classes(dataset))), rng.generator(0, "estimate")
    net = models.build(model, shape, task.outputs, draw)
    return flops(algorithms.create(algorithm, net, draw, task), shape)


def _measure(config: RunConfig, executor: str, device: torch.device) -> dict[str, float]:
    """One short round of the run's own kind on random pixels: all its clients where they train together, else one of them."""
    federation = _short(config, executor, device)
    state, _ = federation.start()
    algorithm, data, server = federation.algorithm, federation.data, federation.server(state, federation.clients)
    received = algorithm.broadcast(state.weights, server)

    def train() -> list[Sent]:
        return list(Round(federation, state, {}).train(received))  # it trains as it is asked

    sent = train()

    def test() -> None:
        measured(algorithm, federation.measures, received, data.test_x, data.test_y, federation.chunk)

    return {
        "operations": federation.flops,
        "train": _seconds(train, device) / len(data.train_x),
        "evaluate": _seconds(test, device) / len(data.test_x),
        "aggregate": _seconds(lambda: algorithm.aggregate(state.weights, server, sent), device) / len(sent),
    }


def _short(config: RunConfig, executor: str, device: torch.device) -> Federation:
    """A few batches for each client, one epoch."""
    shape, _, _ = datasets.extent(config.dataset)
    classes, real = len(datasets.classes(config.dataset)), datasets.is_real(config.dataset)
    draw, each = rng.generator(0, "estimate"), STEPS * config.batch_size

    def part(images: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.randint(0, 256, (images, *shape), dtype=torch.uint8, generator=draw)
        return pixels.float() if real else pixels, torch.arange(images) % classes

    meta = {"mean": [0.5] * shape[0], "std": [0.2] * shape[0]}

    def federation(clients: int) -> Federation:
        training = {"partition": Choice(name="iid", clients=clients), "clients_per_round": clients, "local_epochs": 1}
        short = config.model_copy(update=training | {"train_images": None, "test_images": None})
        dataset = Dataset(config.dataset.name, *part(clients * each), *part(TESTS), classes, meta)
        return Federation(short, dataset, partitions.of_run(short, dataset), device, executor)

    whole = federation(config.clients_per_round)
    return whole if isinstance(whole.executor, executors.Stacked) else federation(1)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Median of three, after one that is not counted."""
    spent = []
    for _ in range(4):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    return sorted(spent[1:])[1]


def report(params: Params, paths: Paths, chosen: Iterable[Planned], measure: bool = True) -> str:
    """A table of what is not finished, by experiment, with its cost on this machine; guessed where it is not to be measured."""
    device = pick_device(params.device)
    chosen = list(chosen)
    lines = [f"{'experiment':<34} {'runs':>9} {'samples':>9} {'TFLOP':>9} {'hours':>7}"]
    seen, total = set(), Cost(0, 0, 0, 0)
    for item in chosen:
        if item.skipped:
            lines.append(f"{item.paper + '/' + item.name:<34} skipped: {item.skipped}")
            continue
        runs = [run for run in item.runs if not run.summary.exists() and run.folder not in seen]
        seen |= {run.folder for run in runs}
        spent = _sum(cost(run, paths, params.executor, device, measure) for run in runs)
        total = _sum((total, spent))
        lines.append(_line(f"{item.paper}/{item.name}", f"{len(runs)} of {len(item.runs)}", spent))
    cases = studying.unfinished(chosen, params, paths)
    for title in dict.fromkeys(case.study.title for case in cases):
        own = [case for case in cases if case.study.title == title]
        how = own[0].study.executor or params.executor
        spent = _sum(cost(studying.at_most(case), paths, how, device, measure) for case in own)
        total = _sum((total, spent))
        lines.append(_line(f"{title} after them, at most", str(len(own)), spent))
    lines.append(_line(f"scale {params.scale}, on one {device.type} process", str(len(seen)), total))
    return "\n".join(lines)


def _sum(costs: Iterable[Cost]) -> Cost:
    parts = [(c.samples, c.evaluated, c.operations, c.seconds) for c in costs]
    return Cost(*(sum(column) for column in zip(*parts, strict=True))) if parts else Cost(0, 0, 0, 0)


def _line(name: str, runs: str, spent: Cost) -> str:
    return f"{name:<34} {runs:>9} {spent.samples:>9.2e} {spent.operations / 1e12:>9.3g} {spent.seconds / 3600:>7.2f}"
