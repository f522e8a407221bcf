"""What a piece of work costs before it starts: runs, samples, floating-point operations, hours on this machine.

Operations are counted on the network itself (a training step counts as three forward passes); times come from a few steps
measured here for each combination of network, method and batch, remembered in `results/speed.json`.
"""

import contextlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedrepro import algorithms, datasets, models, provenance, registry, rng
from fedrepro.config import Params, RunConfig
from fedrepro.engine.run import Run, pick_device
from fedrepro.experiments import Paths, Planned
from fedrepro.files import replacing

STEPS = 4  # timed, after one that is not


@dataclass(frozen=True)
class Cost:
    """Of one run: samples trained on, samples evaluated on, operations, seconds."""

    samples: float
    evaluated: float
    operations: float
    seconds: float


def cost(run: Run, paths: Paths, device: torch.device) -> Cost:
    """The whole run's cost, as if nothing of it were done."""
    config = run.config
    _, train, test = datasets.extent(config.dataset)
    share = (config.train_images or train) / config.partition.options["clients"]
    samples = config.rounds * config.clients_per_round * config.local_epochs * share
    own = 2 * config.clients_per_round * (config.test_images or test) / config.partition.options["clients"]
    evaluated = config.rounds / config.evaluate_every * ((config.test_images or test) + own)
    speed = _speed(config, paths, device)
    operations = (3 * samples + evaluated) * speed["operations"]
    return Cost(samples, evaluated, operations, samples * speed["train"] + evaluated * speed["evaluate"])


def _speed(config: RunConfig, paths: Paths, device: torch.device) -> dict[str, float]:
    """Forward operations, training seconds and evaluation seconds per sample."""
    key = provenance.digest(
        [config.dataset, config.batch_size, config.precision, *(c.model_dump() for c in (config.model, config.algorithm))]
        + [provenance.environment(device)["hardware"], torch.__version__]
    )
    path = paths.results / "speed.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if key not in known:
        known[key] = _measure(config, device)
        with contextlib.suppress(OSError):  # what cannot be remembered is measured again
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known[key]


def _measure(config: RunConfig, device: torch.device) -> dict[str, float]:
    shape, _, _ = datasets.extent(config.dataset)
    classes = len(registry.module("datasets", config.dataset).CLASSES)
    dtype = getattr(torch, config.precision)
    net = models.build(config.model, shape, classes, rng.generator(0, "estimate")).to(
        device, dtype, memory_format=torch.channels_last
    )
    algorithm = algorithms.create(config.algorithm, net)
    images = torch.rand(config.batch_size, *shape, generator=rng.generator(0, "images")).to(device, dtype)
    labels = torch.zeros(config.batch_size, dtype=torch.int64, device=device)
    received = {name: tensor.detach() for name, tensor in algorithm.net.state_dict().items()}
    weights = {name: tensor.clone().requires_grad_() for name, tensor in received.items()}
    optimiser = torch.optim.SGD(weights.values(), lr=1e-9, fused=True)

    def step() -> None:
        loss = algorithm.loss(weights, received, algorithm.frozen(received, images), images, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def forward() -> None:
        with torch.no_grad():
            algorithm.forward(received, images)

    with FlopCounterMode(display=False) as counter:
        forward()
    per_sample = config.batch_size
    return {
        "operations": counter.get_total_flops() / per_sample,
        "train": _seconds(step, device) / per_sample,
        "evaluate": _seconds(forward, device) / per_sample,
    }


def _seconds(work, device: torch.device) -> float:
    work()
    began = time.perf_counter()
    for _ in range(STEPS):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / STEPS


def report(params: Params, paths: Paths, chosen: Iterable[Planned]) -> str:
    """A table of what is not finished, by experiment, with its cost on this machine."""
    device = pick_device(params.device)
    lines = [f"{'experiment':<34} {'runs':>9} {'samples':>9} {'TFLOP':>9} {'hours':>7}"]
    seen, total = set(), Cost(0, 0, 0, 0)
    for item in chosen:
        if item.skipped:
            lines.append(f"{item.paper + '/' + item.name:<34} skipped: {item.skipped}")
            continue
        runs = [run for run in item.runs if not run.summary.exists() and run.folder not in seen]
        seen |= {run.folder for run in runs}
        spent = _sum(cost(run, paths, device) for run in runs)
        total = _sum((total, spent))
        lines.append(_line(f"{item.paper}/{item.name}", f"{len(runs)} of {len(item.runs)}", spent))
    lines.append(_line(f"scale {params.scale}, on one {device.type} process", str(len(seen)), total))
    return "\n".join(lines)


def _sum(costs: Iterable[Cost]) -> Cost:
    parts = [(c.samples, c.evaluated, c.operations, c.seconds) for c in costs]
    return Cost(*(sum(column) for column in zip(*parts, strict=True))) if parts else Cost(0, 0, 0, 0)


def _line(name: str, runs: str, spent: Cost) -> str:
    return f"{name:<34} {runs:>9} {spent.samples:>9.2e} {spent.operations / 1e12:>9.3g} {spent.seconds / 3600:>7.2f}"
