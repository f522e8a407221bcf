"""Expected cost of the work that is not finished: by experiment, and as time on a number of cores."""

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost_model, study_plan
from fedrepro.experiments.cost_model import Cost
from fedrepro.experiments.jobs import makespan
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import devices

START_SECONDS = 8.0  # of processor time before a job's process trains: Snakemake, Python and torch, on AMD EPYC (Zen 4)
HEAD = f"{'experiment':<34} {'runs':>9} {'samples':>9} {'TFLOP':>9} {'time':>8}"


@dataclass(frozen=True)
class PendingWork:
    """An unfinished run, or an unfinished study of a run."""

    id: str  # as its job names it
    group: str  # its line in the table, such as fedmmd/fig4d or the title of a study
    name: str  # such as "fig4d FedMMD, seed 0"
    done_file: Path  # exists exactly if the work is finished
    cost: Cost
    is_study: bool = False


def pending_work(chosen: Iterable[PlannedExperiment], params: Params, paths: Paths) -> list[PendingWork]:
    """Return the unfinished runs and studies of some experiments, each once."""
    device, counts = devices.planned_device(params.device), cost_model.CountCache(paths)
    hardware, cores_per_run = provenance.hardware(device), params.cores_per_run if device.type == "cpu" else 1

    @functools.cache  # not needed if nothing is unfinished
    def ratios() -> cost_model.Ratios:
        return cost_model.kept_ratios(paths, device)

    def estimate(run: Run, executor: str, location: str, cores: int) -> Cost:
        try:
            return cost_model.estimate(run, counts, executor, device, ratios(), hardware, cores)
        except UserError as error:  # for example a network that the method does not support
            raise UserError(f"{location}: {error}") from None

    chosen = list(chosen)
    names: dict[str, str] = {}
    pending: dict[Path, PendingWork] = {}
    for item in chosen:
        for series in item.series:
            location = f"{item.location}: series.{series.label}"
            for run in series.runs:
                name = names.setdefault(run.id, f"{item.name} {series.label}, seed {run.config.seed}")
                if run.summary not in pending and not run.summary.exists():
                    cost = estimate(run, params.executor, location, cores_per_run)
                    pending[run.summary] = PendingWork(run.id, f"{item.paper}/{item.name}", name, run.summary, cost)
    for study_run in study_plan.unfinished(chosen, params, paths):
        study, done_file = study_run.study, study_run.done_file
        name = f"{study.title} of {names.get(study_run.run.id, study_run.run.id)}"
        executor = study.executor or params.executor
        cost = estimate(study_plan.cost_bound(study_run), executor, study_run.id, cores=1)
        pending[done_file] = PendingWork(study_run.id, f"{study.title} after them, at most", name, done_file, cost, True)
    counts.save()
    return list(pending.values())


def core_hours(groups: Mapping[str, Mapping[str, Iterable[Run]]], paths: Paths) -> dict[str, dict[str, float]]:
    """Return the core hours that groups of each paper's runs take, judged in the same way on every machine."""
    counts, cpu = cost_model.CountCache(paths), torch.device("cpu")
    ratios = cost_model.kept_ratios(paths, cpu)

    def hours(runs: Iterable[Run]) -> float:
        return sum(cost_model.estimate(run, counts, "auto", cpu, ratios).seconds for run in runs) / 3600

    return {paper: {name: hours(runs) for name, runs in own.items()} for paper, own in groups.items()}


def wall_seconds(pending: Collection[PendingWork], cores: int) -> float:
    """Return the seconds until all work is finished on a number of cores: first the runs, then the studies."""
    return sum(_makespan([work.cost for work in pending if work.is_study is is_study], cores) for is_study in (False, True))


def _makespan(costs: list[Cost], cores: int) -> float:
    return makespan([cost.seconds for cost in costs], cores // max((cost.cores for cost in costs), default=1))


def plan_table(chosen: Iterable[PlannedExperiment], pending: Collection[PendingWork], cores: int, scale: str) -> str:
    """Format a table of experiments: how many of their runs are unfinished, and what these cost."""
    lines = [HEAD]
    for item in chosen:
        name = f"{item.paper}/{item.name}"
        if item.skipped:
            lines.append(f"{name:<34} skipped: {item.skipped}")
            continue
        unfinished = [work for work in pending if work.group == name]
        lines.append(_line(name, f"{len(unfinished)} of {len({run.folder for run in item.runs})}", unfinished))
    studies = _grouped(work for work in pending if work.is_study)
    lines += [_line(group, str(len(members)), members) for group, members in studies.items()]
    runs = sum(not work.is_study for work in pending)
    return "\n".join([*lines, _line(f"scale {scale}, one after the other", str(runs), pending), _total(pending, cores)])


def pending_table(pending: Collection[PendingWork], cores: int, processes: int = 0) -> str:
    """Format a table of the requested work that is unfinished, which so many processes do."""
    lines = [_line(group, str(len(members)), members) for group, members in _grouped(pending).items()]
    first = f"To be trained: {_total(pending, cores, processes)}, by the seconds of similar runs."
    return "\n".join([first, HEAD, *lines])


def _total(pending: Collection[PendingWork], cores: int, processes: int = 0) -> str:
    seconds = wall_seconds(pending, cores) + START_SECONDS * processes / max(1, min(cores, processes))
    return f"about {duration(seconds)} on {count(cores, 'core')}"


def _grouped(pending: Iterable[PendingWork]) -> dict[str, list[PendingWork]]:
    groups: dict[str, list[PendingWork]] = {}
    for work in pending:
        groups.setdefault(work.group, []).append(work)
    return groups


def _line(name: str, runs: str, pending: Collection[PendingWork]) -> str:
    samples = sum(work.cost.samples for work in pending)
    operations = sum(work.cost.operations for work in pending)
    seconds = sum(work.cost.seconds for work in pending)
    return f"{name:<34} {runs:>9} {samples:>9.2e} {operations / 1e12:>9.3g} {duration(seconds):>8}"
