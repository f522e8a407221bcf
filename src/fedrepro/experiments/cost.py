"""Expected cost of the work that is not finished: by experiment, and as time on a number of
cores."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import torch

from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost_model, study_plan
from fedrepro.experiments.jobs import Cost, Work, makespan
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import devices

# of processor time before a job's process trains: Snakemake, Python and torch, on AMD EPYC (Zen 4)
START_SECONDS = 8.0
HEAD = f"{'experiment':<34} {'runs':>9} {'samples':>9} {'TFLOP':>9} {'time':>8}"


def missing_work(planned: Iterable[Work], params: Params, paths: Paths) -> list[Work]:
    """Return the unfinished runs and studies of some work, with their costs. Raises UserError for
    what cannot be run."""
    device, counts = devices.planned_device(params.device), cost_model.CountCache(paths)
    hardware, cores_per_run = (
        provenance.hardware(device),
        params.cores_per_run if device.type == "cpu" else 1,
    )
    missing = [work for work in planned if not work.done_file.exists()]
    ratios = cost_model.kept_ratios(paths, device) if missing else {}
    costed: list[Work] = []
    for work in missing:
        run, executor, cores = work.item, params.executor, cores_per_run
        if work.is_study:
            run, executor, cores = (
                study_plan.cost_bound(work.item),
                work.item.study.executor or executor,
                1,
            )
        try:
            cost = cost_model.estimate(run, counts, executor, device, ratios, hardware, cores)
        except UserError as error:  # for example a network that the method does not support
            raise UserError(f"{work.location}: {error}") from None
        costed.append(replace(work, cost=cost))
    counts.save()
    return costed


def core_hours(
    groups: Mapping[str, Mapping[str, Iterable[Run]]], paths: Paths
) -> dict[str, dict[str, float]]:
    """Return the core hours that groups of each paper's runs take, judged in the same way on every
    machine."""
    counts, cpu = cost_model.CountCache(paths), torch.device("cpu")
    ratios = cost_model.kept_ratios(paths, cpu)

    def hours(runs: Iterable[Run]) -> float:
        return (
            sum(cost_model.estimate(run, counts, "auto", cpu, ratios).seconds for run in runs)
            / 3600
        )

    return {
        paper: {name: hours(runs) for name, runs in own.items()} for paper, own in groups.items()
    }


def wall_seconds(pending: Collection[Work], cores: int) -> float:
    """Return the seconds until all work is finished on a number of cores: first the runs, then the
    studies."""
    return sum(
        _makespan([work.cost for work in pending if work.is_study is is_study], cores)
        for is_study in (False, True)
    )


def _makespan(costs: list[Cost], cores: int) -> float:
    return makespan(
        [cost.seconds for cost in costs], cores // max((cost.cores for cost in costs), default=1)
    )


def plan_table(
    chosen: Iterable[PlannedExperiment], pending: Collection[Work], cores: int, scale: str
) -> str:
    """Format a table of experiments: how many of their runs are unfinished, and what these cost."""
    lines = [HEAD]
    for item in chosen:
        name = f"{item.paper}/{item.name}"
        if item.skipped:
            lines.append(f"{name:<34} skipped: {item.skipped}")
            continue
        unfinished = [work for work in pending if work.group == name]
        lines.append(
            _line(
                name, f"{len(unfinished)} of {len({run.folder for run in item.runs})}", unfinished
            )
        )
    studies = _grouped(work for work in pending if work.is_study)
    lines += [_line(group, str(len(members)), members) for group, members in studies.items()]
    runs = sum(not work.is_study for work in pending)
    return "\n".join(
        [
            *lines,
            _line(f"scale {scale}, one after the other", str(runs), pending),
            _total(pending, cores),
        ]
    )


def pending_table(pending: Collection[Work], cores: int, processes: int = 0) -> str:
    """Format a table of the requested work that is unfinished, which so many processes do."""
    lines = [
        _line(group, str(len(members)), members) for group, members in _grouped(pending).items()
    ]
    first = f"To be trained: {_total(pending, cores, processes)}, by the seconds of similar runs."
    return "\n".join([first, HEAD, *lines])


def _total(pending: Collection[Work], cores: int, processes: int = 0) -> str:
    seconds = wall_seconds(pending, cores) + START_SECONDS * processes / max(
        1, min(cores, processes)
    )
    return f"about {duration(seconds)} on {count(cores, 'core')}"


def _grouped(pending: Iterable[Work]) -> dict[str, list[Work]]:
    groups: dict[str, list[Work]] = {}
    for work in pending:
        groups.setdefault(work.group, []).append(work)
    return groups


def _line(name: str, runs: str, pending: Collection[Work]) -> str:
    samples = sum(work.cost.samples for work in pending)
    operations = sum(work.cost.operations for work in pending)
    seconds = sum(work.cost.seconds for work in pending)
    return f"{name:<34} {runs:>9} {samples:>9.2e} {operations / 1e12:>9.3g} {duration(seconds):>8}"
