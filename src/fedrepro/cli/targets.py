"""Targets of the command line: every figure, table and paper with its title, its state and the cost of the unfinished part."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedrepro.config.params import Params
from fedrepro.core.errors import unknown_name
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost, plan, study_plan
from fedrepro.experiments.cost import PendingWork
from fedrepro.experiments.plan import Plan, PlannedExperiment
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_results_name
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs.paths import Paths

OTHER_DATA = "kept of other data"


@dataclass(frozen=True)
class Target:
    """A target: its name on the command line, its title, how much is finished and what the rest costs."""

    target: str
    title: str
    state: str
    cost: str
    reason: str = ""  # why it is skipped


def list_targets(planned: Plan, params: Params, paths: Paths, cores: int) -> list[Target]:
    """Return all targets, each under the shortest name that is unique among the papers."""
    papers = spec.read_papers(params)
    by_name = spec.targets(papers)
    pending = cost.pending_work(plan.all_experiments(planned), params, paths)

    def describe(target: str, title: str, items: list[PlannedExperiment]) -> Target:
        return _describe_target(target, title, items, pending, params, paths, cores)

    targets = []
    for name, paper in papers.items():
        targets.append(describe(name, paper.title, list(planned[name].values())))
        for key in paper.artifacts:
            target = key if by_name.get(key) == (name, key) else f"{name}_{key}"
            title = "Verdicts on all claims" if key == VERDICTS else paper[key].title
            targets.append(describe(target, title, [planned[name][experiment] for experiment in _experiments(paper, key)]))
    return targets


def format_table(targets: Iterable[Target]) -> str:
    """Return a table with one line for each target, and below it the reasons of skipped targets."""
    rows = [Target("target", "title", "state", "left"), *targets]
    widths = [max(len(getattr(row, part)) for row in rows) for part in ("target", "state", "cost")]
    lines = [f"{row.target:<{widths[0]}}  {row.state:<{widths[1]}}  {row.cost:>{widths[2]}}  {row.title}" for row in rows]
    if any(OTHER_DATA in row.state for row in rows):
        lines.append(f"{OTHER_DATA}: trained again here; report_only=true reports what is kept")
    for reason in dict.fromkeys(row.reason for row in rows if row.reason):
        lines.append(f"skipped: {', '.join(row.target for row in rows if row.reason == reason)}: {reason}")
    return "\n".join(lines)


def select_experiments(targets: Iterable[str], planned: Plan, params: Params) -> list[PlannedExperiment]:
    """Return the experiments behind targets: papers, figures, tables or experiments by name. Raises UserError."""
    papers = spec.read_papers(params)
    by_name = spec.targets(papers)
    selected: dict[tuple[str, str], PlannedExperiment] = {}
    for target in targets:
        if target in planned:
            items = list(planned[target].values())
        elif target in by_name:
            paper, key = by_name[target]
            items = [planned[paper][name] for name in _experiments(papers[paper], key)]
        else:
            items = [item for item in plan.all_experiments(planned) if item.name == target]
            if not items:
                raise unknown_name("target", target, [*planned, *by_name], "; `fedrepro list` shows all")
        selected |= {(item.paper, item.name): item for item in items}
    return list(selected.values())


def _experiments(paper: Paper, key: str) -> list[str]:
    return list(dict.fromkeys(split_results_name(source)[0] for source in paper.sources([key])))


def _describe_target(
    target: str, title: str, items: list[PlannedExperiment], work: list[PendingWork], params: Params, paths: Paths, cores: int
) -> Target:
    studies: list[study_plan.PlannedStudy] = []
    for item in items:
        planned = study_plan.plan_studies(item, params, paths).values()
        studies += [study for study in planned if _is_requested(item, study)]
    # the files that exist when the runs and studies are finished
    done_files = {run.folder: run.summary for item in items for run in item.runs}
    done_files |= {case.table: case.done_file for study in studies for case in study.study_runs}
    if not done_files:
        reasons = dict.fromkeys(str(item.skipped) for item in items if item.skipped)
        return Target(target, title, "skipped" if reasons else "needs no runs", "", "; ".join(reasons))
    impossible = [str(study.skipped) for study in studies if study.skipped]  # their runs' weights are gone
    done, total = sum(path.exists() for path in done_files.values()), len(done_files) + len(impossible)
    complete = not any(item.requested_series for item in items)  # else `report_only` leaves out unfinished series
    if done == total and complete:
        state = "finished"
    else:
        state = f"{done} of {count(total, 'run')}{'' if complete else ' and more'}" if done else "not run"
    if elsewhere := len({run.summary for item in items for run in item.kept_with_other_data}):
        state += f", {elsewhere} {OTHER_DATA}"
    files = set(done_files.values())
    unfinished = [entry for entry in work if entry.done_file in files]
    time_left = duration(cost.wall_seconds(unfinished, cores)) if unfinished else ""
    return Target(target, title, state, time_left, "; ".join(dict.fromkeys(impossible)))


def _is_requested(item: PlannedExperiment, study: study_plan.PlannedStudy) -> bool:
    return item.training is not None and item.training.studies.get(study.study_name) is not None
