"""What work costs before it starts, added up: by experiment, and as time on the cores given. A run's cost: `estimate.py`."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from fedrepro.config.params import Params
from fedrepro.core.errors import UserError
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost_model, study_plan
from fedrepro.experiments.cost_model import Cost
from fedrepro.experiments.jobs import makespan
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import devices

HEAD = f"{'experiment':<34} {'runs':>9} {'samples':>9} {'TFLOP':>9} {'time':>8}"


@dataclass(frozen=True)
class PendingWork:
    """A run, or a study of one, that is not over."""

    id: str  # by which its job names it
    group: str  # its line in the table: fedmmd/fig4d, or what the study looks for
    name: str  # fig4d FedMMD, seed 0
    done_file: Path  # there exactly if it is over
    cost: Cost
    studies: bool = False


def pending_work(
    chosen: Iterable[PlannedExperiment], params: Params, paths: Paths, measuring: Callable[[str], None] | None = None
) -> list[PendingWork]:
    """All that is not over of some experiments, each once. A speed that is not known is guessed, or measured where `measuring`
    is given, which is told each time for whom."""
    device, found, known = devices.planned_device(params.device), {}, cost_model.SpeedCache(paths)
    if measuring and device.type == "cuda" and not torch.cuda.is_available():
        measuring = None  # trained elsewhere, so measured nowhere
    if measuring and devices.acquire_device(params.device, params.gpus, lambda seconds: True) is None:
        measuring = None  # beside what trains there it would be slower

    def add(id: str, group: str, name: str, over: Path, run: Run, executor: str, where: str, studies: bool = False) -> None:
        cores = 1 if studies or device.type == "cuda" else params.cores_per_run
        tell = measuring and (lambda: measuring(name))
        try:
            cost = cost_model.estimate(run, known, executor, device, tell, cores)
        except UserError as error:  # such as a network that its method cannot have: before anything is trained
            raise UserError(f"{where}: {error}") from None
        found[over] = PendingWork(id, group, name, over, cost, studies)

    chosen, names = list(chosen), {}
    for item in chosen:
        for series in item.series:
            for run in series.runs:
                name = names.setdefault(run.id, f"{item.name} {series.label}, seed {run.config.seed}")
                if run.summary not in found and not run.summary.exists():
                    where = f"{item.location}: series.{series.label}"
                    add(run.id, f"{item.paper}/{item.name}", name, run.summary, run, params.executor, where)
    for case in study_plan.unfinished(chosen, params, paths):
        title, executor = case.study.title, case.study.executor or params.executor
        name = f"{title} of {names.get(case.run.id, case.run.id)}"
        add(case.id, f"{title} after them, at most", name, case.done_file, study_plan.cost_bound(case), executor, case.id, True)
    known.save()
    return list(found.values())


def core_hours(groups: Mapping[str, Iterable[Run]], paths: Paths) -> dict[str, float]:
    """The core hours that some groups of runs take, by the same guess on every machine."""
    known, cpu = cost_model.SpeedCache(paths, measured=False), torch.device("cpu")
    return {
        name: sum(cost_model.estimate(run, known, "auto", cpu).seconds for run in runs) / 3600 for name, runs in groups.items()
    }


def wall_seconds(found: Collection[PendingWork], cores: int) -> float:
    """Until all is over on so many cores: the studies come after the runs."""
    kinds = [[entry.cost for entry in found if entry.studies is studies] for studies in (False, True)]
    at_once = [cores // max((cost.cores for cost in costs), default=1) for costs in kinds]
    return sum(makespan([cost.seconds for cost in costs], jobs) for costs, jobs in zip(kinds, at_once, strict=True))


def plan_table(chosen: Iterable[PlannedExperiment], found: Collection[PendingWork], cores: int, scale: str) -> str:
    """A table of some experiments with what is not over, of how much."""
    lines = [HEAD]
    for item in chosen:
        name = f"{item.paper}/{item.name}"
        if item.skipped:
            lines.append(f"{name:<34} skipped: {item.skipped}")
            continue
        own = [entry for entry in found if entry.group == name]
        lines.append(_line(name, f"{len(own)} of {len({run.folder for run in item.runs})}", own))
    lines += [_line(group, str(len(own)), own) for group, own in _grouped(found).items() if own[0].studies]
    runs = [entry for entry in found if not entry.studies]
    return "\n".join([*lines, _line(f"scale {scale}, one after the other", str(len(runs)), found), _together(found, cores)])


def pending_table(found: Collection[PendingWork], cores: int) -> str:
    """A table of what was asked for and is not over."""
    lines = [_line(group, str(len(own)), own) for group, own in _grouped(found).items()]
    first = f"To be trained: {_together(found, cores)}, rough where it was never measured here (`fedrepro plan` does)."
    return "\n".join([first, HEAD, *lines])


def _together(found: Collection[PendingWork], cores: int) -> str:
    return f"about {duration(wall_seconds(found, cores))} on {count(cores, 'core')}"


def _grouped(found: Iterable[PendingWork]) -> dict[str, list[PendingWork]]:
    groups: dict[str, list[PendingWork]] = {}
    for entry in found:
        groups.setdefault(entry.group, []).append(entry)
    return groups


def _line(name: str, runs: str, found: Collection[PendingWork]) -> str:
    samples, operations, spent = (
        sum(getattr(entry.cost, part) for entry in found) for part in ("samples", "operations", "seconds")
    )
    return f"{name:<34} {runs:>9} {samples:>9.2e} {operations / 1e12:>9.3g} {duration(spent):>8}"
