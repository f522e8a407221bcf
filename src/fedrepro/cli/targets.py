"""Targets of the command line: every figure, table and paper with its title, its state and the cost
of the unfinished part."""

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedrepro.config.params import Params
from fedrepro.core.errors import unknown_name
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost, plan, request
from fedrepro.experiments.jobs import Work
from fedrepro.experiments.plan import Plan, PlannedExperiment
from fedrepro.report import paper as spec
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs.paths import Paths


@dataclass(frozen=True)
class Target:
    """A target: its name on the command line, its title, how much is finished and what the rest
    costs."""

    target: str
    title: str
    state: str
    cost: str
    reason: str = ""  # why it is skipped


def list_targets(planned: Plan, params: Params, paths: Paths, cores: int) -> list[Target]:
    """Return all targets, each under the shortest name that is unique among the papers."""
    papers = spec.read_papers(params)
    by_name = spec.targets(papers)
    pending = cost.missing_work(plan.planned_work(plan.all_experiments(planned)), params, paths)

    def describe(target: str, title: str, items: list[PlannedExperiment]) -> Target:
        return _describe_target(target, title, items, pending, cores)

    targets = []
    for name, paper in papers.items():
        targets.append(describe(name, paper.title, list(planned[name].values())))
        for key in paper.artifacts:
            target = key if by_name.get(key) == (name, key) else f"{name}_{key}"
            title = "Verdicts on all claims" if key == VERDICTS else paper[key].title
            targets.append(
                describe(target, title, request.experiments_of(papers, planned, name, key))
            )
    return targets


def format_table(targets: Iterable[Target], width: int = sys.maxsize) -> str:
    """Return a table with one line for each target, and below it the reasons of skipped targets.
    Titles and reasons are wrapped at `width` letters."""
    rows = [Target("target", "title", "state", "left"), *targets]
    widths = [max(len(getattr(row, part)) for row in rows) for part in ("target", "state", "cost")]
    start = sum(widths) + 6  # of titles
    lines = []
    for row in rows:
        title = textwrap.fill(row.title, max(width - start, 20)).replace("\n", "\n" + " " * start)
        lines.append(
            f"{row.target:<{widths[0]}}  {row.state:<{widths[1]}}  {row.cost:>{widths[2]}}  {title}"
        )
    for reason in dict.fromkeys(row.reason for row in rows if row.reason):
        skipped = (
            f"skipped: {', '.join(row.target for row in rows if row.reason == reason)}: {reason}"
        )
        lines.append(textwrap.fill(skipped, width, subsequent_indent="  "))
    return "\n".join(lines)


def select_experiments(
    targets: Sequence[str], planned: Plan, params: Params
) -> list[PlannedExperiment]:
    """Return the experiments behind targets: papers, figures, tables or experiments by name. Raises
    UserError."""
    papers = spec.read_papers(params)
    known = [*planned, *spec.targets(papers)]
    if unknown := [
        name
        for name in targets
        if name not in {*known, *(item.name for item in plan.all_experiments(planned))}
    ]:
        raise unknown_name("target", unknown[0], known, "; `fedrepro list` shows all")
    return request.select(targets, planned, papers)


def _describe_target(
    target: str, title: str, items: list[PlannedExperiment], work: list[Work], cores: int
) -> Target:
    studies = [study for item in items for study in item.studies.values() if study.settings]
    # the files that exist when the runs and studies are finished
    done_files = {run.folder: run.summary for item in items for run in item.runs}
    done_files |= {case.table: case.done_file for study in studies for case in study.study_runs}
    if not done_files:
        reasons = dict.fromkeys(str(item.skipped) for item in items if item.skipped)
        return Target(
            target, title, "skipped" if reasons else "needs no runs", "", "; ".join(reasons)
        )
    # their runs' weights are gone
    impossible = [str(study.skipped) for study in studies if study.skipped]
    done, total = (
        sum(path.exists() for path in done_files.values()),
        len(done_files) + len(impossible),
    )
    # else `report_only` leaves out unfinished series
    complete = not any(item.requested_series for item in items)
    if done == total and complete:
        state = "finished"
    else:
        state = (
            f"{done} of {count(total, 'run')}{'' if complete else ' and more'}"
            if done
            else "not run"
        )
    files = set(done_files.values())
    unfinished = [entry for entry in work if entry.done_file in files]
    time_left = duration(cost.wall_seconds(unfinished, cores)) if unfinished else ""
    return Target(target, title, state, time_left, "; ".join(dict.fromkeys(impossible)))
