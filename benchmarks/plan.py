"""The measurements of a benchmark, in order, as records of the result file."""

import dataclasses
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.contenders import INDEPENDENT, PEERS
from benchmarks.workloads import SEED, Task, Workload, steps, variant
from fedrepro.config.params import RunConfig

log = logging.getLogger(__name__)

COHORTS = (10, 50, 100, 500)
WIDTHS = (0.5, 1.0, 2.0)
SCAN_ROUNDS, SCAN_WARMUP = 3, 1


@dataclass(frozen=True)
class Settings:
    """Options of the measurements; `python` is the interpreter for this program, `peers` that for
    its peers."""

    workloads: dict[str, Workload]
    contenders: tuple[str, ...]
    processes: tuple[int, ...]
    repeats: int
    rounds: int | None
    executor: str
    device: str
    data: Path
    python: str
    peers: str
    comparisons: bool
    scans: bool

    def interpreter(self, contender: str) -> str:
        return self.peers if contender in PEERS else self.python


def measurements(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the records of all selected measurements."""
    if settings.comparisons:
        yield from comparisons(settings)
    if settings.scans:
        yield from scans(settings)


def comparisons(settings: Settings) -> Iterator[dict[str, Any]]:
    """Measure every contender once per repeat, in turns, so that changes of the machine's speed
    affect all of them."""
    for repeat in range(settings.repeats):
        for name, workload in settings.workloads.items():
            if "ours" in settings.contenders and settings.device == "cpu":
                yield {"workload": name, "repeat": repeat} | _kernels(settings, workload)
            for count in settings.processes:
                for contender in settings.contenders:
                    if contender == "jax" and not workload.jax:
                        continue
                    about = {
                        "workload": name,
                        "contender": contender,
                        "processes": count,
                        "repeat": repeat,
                    }
                    yield about | _attempt(
                        lambda a=about, w=workload: _compare(
                            settings, w, a["contender"], a["processes"]
                        )
                    )


def scans(settings: Settings) -> Iterator[dict[str, Any]]:
    """Measure this program alone, in one process, with other cohort sizes and network widths."""
    for name, workload in settings.workloads.items():
        config = workload.config(max(SCAN_ROUNDS, (workload.ours or 0) // 10))
        changes = [
            {"cohort": cohort}
            for cohort in COHORTS
            if cohort <= config.partition.options["clients"]
        ]
        if config.model.name != "logistic":  # it has no hidden units to scale
            changes += [{"width": width} for width in WIDTHS]
        for change in changes:
            task = _task(settings, "ours", variant(config, **change), SCAN_WARMUP)
            about = {"workload": name, "change": change, "steps": steps(task.config)}
            yield about | _attempt(lambda t=task: processes.measure([t], settings.python))


def _compare(settings: Settings, workload: Workload, contender: str, count: int) -> dict[str, Any]:
    rounds = settings.rounds or (contender in ("ours", "jax") and workload.ours) or workload.rounds
    warmup = min(workload.warmup, rounds - 1)
    base = dataclasses.replace(
        _task(settings, contender, workload.config(rounds), warmup), processes=count
    )
    if contender == "flower":
        tasks = [base]
    elif contender in INDEPENDENT:
        tasks = [
            dataclasses.replace(base, rank=rank, config=workload.config(rounds, SEED + rank))
            for rank in range(count)
        ]
    else:
        tasks = [dataclasses.replace(base, rank=rank) for rank in range(count)]
    return processes.measure(tasks, settings.interpreter(contender))


def _task(settings: Settings, contender: str, config: RunConfig, warmup: int) -> Task:
    return Task(
        contender,
        config,
        warmup,
        executor=settings.executor,
        device=settings.device,
        data=str(settings.data.resolve()),
    )


def _kernels(settings: Settings, workload: Workload) -> dict[str, float]:
    """Measure the share and rate of this program's kernels, see `contenders.ours`."""
    rounds = workload.ours or workload.rounds
    task = _task(settings, "ours", workload.config(rounds), min(workload.warmup, rounds - 2))
    results, _ = processes.together([["kernels", task.to_json()]], settings.python, waits=False)
    return {"kernels": results[0]}


def _attempt(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a measurement, or the reason if the contender failed."""
    try:
        return measure()
    except processes.ChildFailed as error:
        log.warning("failed: %s", error)
        return {"failed": str(error).strip().splitlines()[-1]}
