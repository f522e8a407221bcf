"""What a piece of work costs before it starts: runs, samples, floating-point operations, hours on this machine.

Operations are counted on the network itself (a training step counts as three forward passes); times come from a short training
measured here for each combination of network, method, cohort and batch, remembered in `results/speed.json`.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from fedrepro import datasets, partitions, provenance, registry, rng, studying
from fedrepro.config import Choice, Params, RunConfig
from fedrepro.datasets import Dataset
from fedrepro.engine import executors
from fedrepro.engine.evaluation import evaluate
from fedrepro.engine.federation import Federation
from fedrepro.engine.run import Run, pick_device
from fedrepro.experiments import Paths, Planned
from fedrepro.files import replacing

STEPS = 2  # of each client that is timed
TESTS = 300  # images


@dataclass(frozen=True)
class Cost:
    """Of one run: samples trained on, samples evaluated on, operations, seconds."""

    samples: float
    evaluated: float
    operations: float
    seconds: float


def cost(run: Run, paths: Paths, executor: str, device: torch.device) -> Cost:
    """The whole run's cost, as if nothing of it were done."""
    config = run.config
    _, train, test = datasets.extent(config.dataset)
    clients = config.partition.options["clients"]
    share, tests = (config.train_images or train) / clients, config.test_images or test
    trained = config.rounds * config.clients_per_round  # local trainings
    samples = trained * config.local_epochs * share
    evaluated = config.rounds / config.evaluate_every * (1 + 2 * config.clients_per_round / clients) * tests
    speed = _speed(config, paths, executor, device)
    seconds = samples * speed["train"] + evaluated * speed["evaluate"] + trained * speed["aggregate"]
    return Cost(samples, evaluated, (3 * samples + evaluated) * speed["operations"], seconds)


def _speed(config: RunConfig, paths: Paths, executor: str, device: torch.device) -> dict[str, float]:
    """Forward operations, training seconds and evaluation seconds per sample, aggregation seconds per client."""
    choices = [choice.model_dump() for choice in (config.model, config.algorithm)]
    settings = [config.clients_per_round, config.batch_size, config.precision, config.momentum, config.augment]
    key = provenance.digest(
        [config.dataset, executor, settings, choices, provenance.environment(device)["hardware"], torch.__version__]
    )
    path = paths.results / "speed.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if key not in known:
        known[key] = _measure(config, executor, device)
        with contextlib.suppress(OSError):  # what cannot be remembered is measured again
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known[key]


def _measure(config: RunConfig, executor: str, device: torch.device) -> dict[str, float]:
    """One short round of the run's own kind on random pixels: all its clients where they train together, else one of them."""
    federation = _short(config, executor, device)
    state, _ = federation.start()
    received = federation.algorithm.broadcast(state.weights, state.server)
    cohort = list(range(federation.clients))
    trained = [weights for weights, _ in federation.executor.train(received, cohort, 1, config.lr)]
    uploads, shares = [federation.algorithm.upload(weights) for weights in trained], [1 / len(cohort)] * len(cohort)
    data, algorithm = federation.data, federation.algorithm

    def train() -> None:
        for _ in federation.executor.train(received, cohort, 1, config.lr):
            pass  # it trains as it is asked

    return {
        "operations": federation.flops,
        "train": _seconds(train, device) / len(data.train_x),
        "evaluate": _seconds(lambda: evaluate(algorithm, received, data.test_x, data.test_y, federation.chunk), device)
        / len(data.test_x),
        "aggregate": _seconds(lambda: algorithm.aggregate(state.weights, state.server, uploads, shares), device) / len(cohort),
    }


def _short(config: RunConfig, executor: str, device: torch.device) -> Federation:
    """A few batches for each client, one epoch."""
    shape, _, _ = datasets.extent(config.dataset)
    classes = len(registry.module("datasets", config.dataset).CLASSES)
    draw, each = rng.generator(0, "estimate"), STEPS * config.batch_size

    def part(images: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.randint(0, 256, (images, *shape), dtype=torch.uint8, generator=draw)
        return pixels, torch.arange(images) % classes

    meta = {"mean": [0.5] * shape[0], "std": [0.2] * shape[0]}

    def federation(clients: int) -> Federation:
        training = {"partition": Choice(name="iid", clients=clients), "clients_per_round": clients, "local_epochs": 1}
        short = config.model_copy(update=training | {"train_images": None, "test_images": None})
        dataset = Dataset(config.dataset, *part(clients * each), *part(TESTS), classes, meta)
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


def report(params: Params, paths: Paths, chosen: Iterable[Planned]) -> str:
    """A table of what is not finished, by experiment, with its cost on this machine."""
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
        spent = _sum(cost(run, paths, params.executor, device) for run in runs)
        total = _sum((total, spent))
        lines.append(_line(f"{item.paper}/{item.name}", f"{len(runs)} of {len(item.runs)}", spent))
    cases = studying.unfinished(chosen, params, paths)
    for title in dict.fromkeys(case.study.title for case in cases):
        own = [case for case in cases if case.study.title == title]
        spent = _sum(cost(studying.at_most(case), paths, case.study.executor or params.executor, device) for case in own)
        total = _sum((total, spent))
        lines.append(_line(f"{title} after them, at most", str(len(own)), spent))
    lines.append(_line(f"scale {params.scale}, on one {device.type} process", str(len(seen)), total))
    return "\n".join(lines)


def _sum(costs: Iterable[Cost]) -> Cost:
    parts = [(c.samples, c.evaluated, c.operations, c.seconds) for c in costs]
    return Cost(*(sum(column) for column in zip(*parts, strict=True))) if parts else Cost(0, 0, 0, 0)


def _line(name: str, runs: str, spent: Cost) -> str:
    return f"{name:<34} {runs:>9} {spent.samples:>9.2e} {spent.operations / 1e12:>9.3g} {spent.seconds / 3600:>7.2f}"
