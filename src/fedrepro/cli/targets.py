"""What can be asked for by name: every figure, table and paper, with its title, how much of it is finished and what is left."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedrepro.config.params import Params
from fedrepro.core.errors import unknown_name
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost as bill
from fedrepro.experiments import plan, study_plan
from fedrepro.experiments.cost import PendingWork
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_results_name
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs.paths import Paths

OTHER_DATA = "kept of other data"
Plan = Mapping[str, Mapping[str, PlannedExperiment]]


@dataclass(frozen=True)
class Target:
    """A target: its name on the command line, what it shows, what is finished, what the rest costs."""

    target: str
    title: str
    state: str
    cost: str
    reason: str = ""  # why it is skipped


def list_targets(planned: Plan, params: Params, paths: Paths, cores: int) -> list[Target]:
    """Return all targets, each under the shortest name that no other paper's has."""
    specs = spec.read_papers(params)
    named = spec.targets(specs)
    found = []
    left = bill.pending_work(plan.all_experiments(planned), params, paths)
    for paper, specification in specs.items():
        found.append(_describe_target(paper, specification.title, list(planned[paper].values()), left, params, paths, cores))
        for key in specification.artifacts:
            target = key if named.get(key) == (paper, key) else f"{paper}_{key}"
            title = "Verdicts on all claims" if key == VERDICTS else specification[key].title
            items = [planned[paper][name] for name in _experiments(specification, key)]
            found.append(_describe_target(target, title, items, left, params, paths, cores))
    return found


def format_table(found: Iterable[Target]) -> str:
    """One line each, in columns; below them why some are skipped."""
    found = list(found)
    rows = [Target("target", "title", "state", "left"), *found]
    widths = [max(len(getattr(row, part)) for row in rows) for part in ("target", "state", "cost")]
    shown = [f"{row.target:<{widths[0]}}  {row.state:<{widths[1]}}  {row.cost:>{widths[2]}}  {row.title}" for row in rows]
    if any(OTHER_DATA in row.state for row in found):
        shown.append(f"{OTHER_DATA}: trained anew here; report_only=true reports what is kept")
    for reason in dict.fromkeys(row.reason for row in rows if row.reason):
        shown.append(f"skipped: {', '.join(row.target for row in rows if row.reason == reason)}: {reason}")
    return "\n".join(shown)


def select_experiments(targets: Iterable[str], planned: Plan, params: Params) -> list[PlannedExperiment]:
    """The experiments behind some targets: a paper's, a figure's, a table's, or one by its own name. Raises UserError."""
    specs = spec.read_papers(params)
    named = spec.targets(specs)
    found: dict[tuple[str, str], PlannedExperiment] = {}
    for target in targets:
        if target in planned:
            own = list(planned[target].values())
        elif target in named:
            paper, key = named[target]
            own = [planned[paper][name] for name in _experiments(specs[paper], key)]
        elif not (own := [item for item in plan.all_experiments(planned) if item.name == target]):
            raise unknown_name("target", target, [*planned, *named], "; `fedrepro list` shows all")
        found |= {(item.paper, item.name): item for item in own}
    return list(found.values())


def _experiments(specification: Paper, key: str) -> list[str]:
    return list(dict.fromkeys(split_results_name(source)[0] for source in specification.sources([key])))


def _describe_target(
    target: str, title: str, items: list[PlannedExperiment], left: list[PendingWork], params: Params, paths: Paths, cores: int
) -> Target:
    studied = [
        found for item in items for found in study_plan.plan_studies(item, params, paths).values() if _is_requested(item, found)
    ]
    # each run and study, with the file that exists if it is over
    wanted = {run.folder: run.summary for item in items for run in item.runs}
    wanted |= {case.table: case.done_file for found in studied for case in found.study_runs}
    if not wanted:
        reasons = dict.fromkeys(str(item.skipped) for item in items if item.skipped)
        return Target(target, title, "skipped" if reasons else "needs no runs", "", "; ".join(reasons))
    lost = [str(found.skipped) for found in studied if found.skipped]  # nothing is left to make them from
    done, all_of_them = sum(path.exists() for path in wanted.values()), len(wanted) + len(lost)
    whole = not any(item.unfinished_series for item in items)  # else other series wait, which `report_only` leaves out
    if done == all_of_them and whole:
        state = "finished"
    else:
        state = f"{done} of {count(all_of_them, 'run')}{'' if whole else ' and more'}" if done else "not run"
    if elsewhere := len({run.summary for item in items for run in item.kept_with_other_data}):
        state += f", {elsewhere} {OTHER_DATA}"
    own = [entry for entry in left if entry.done_file in wanted.values()]
    return Target(target, title, state, duration(bill.wall_seconds(own, cores)) if own else "", "; ".join(dict.fromkeys(lost)))


def _is_requested(item: PlannedExperiment, found: study_plan.PlannedStudy) -> bool:
    return item.training is not None and item.training.studies.get(found.study_name) is not None
