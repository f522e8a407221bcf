"""Studies (fedrepro.studies) as work: which runs they look at, where their answers lie. `study_runner.py` makes them.

A study is a function of a run and its own settings. It leaves two files in the run's folder, named by the study and the hash of
settings and code: `<study>-<hash>.csv`, and `<study>-<hash>.json`, which is there exactly if the study is over. Until then
`<study>-<hash>.begun` holds its table, which grows unit by unit, so that a killed study goes on after the last complete one; in
a job of Snakemake's until the whole job is done, since of one that fails all notes are deleted.
A run that was kept has no weights: there a study that was kept with it counts, or one in the run's original folder where that
still exists.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.config import registry
from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.experiments import finished_runs, run_list
from fedrepro.experiments import plan as experiments
from fedrepro.experiments.jobs import WorkItem
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.experiments.resolve import check_study, error_prefix_at_scale
from fedrepro.runs import integrity, reasons
from fedrepro.runs.gather import ResultSources
from fedrepro.runs.kept import is_kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.runs.run import Run
from fedrepro.studies import Study


@dataclass(frozen=True)
class StudyRun:
    """A study of one run."""

    run: Run
    study: Study
    table: Path

    @property
    def id(self) -> str:
        return f"{self.study.title} of {self.run.id}"

    @property
    def is_kept(self) -> bool:
        """Whether it was kept with its run; then there is no file of its own, and its table's path only names it."""
        return is_kept(self.table.parent)

    @property
    def done_file(self) -> Path:
        """The file that exists exactly if the study is over."""
        return self.run.summary if self.is_kept else self.table.with_suffix(".json")

    @property
    def partial_file(self) -> Path:
        """The rows so far of a study that is not over."""
        return self.table.with_suffix(".begun")


@dataclass(frozen=True)
class PlannedStudy:
    """One study of an experiment's series, seed by seed; `skipped` says why there are no cases."""

    planned: PlannedExperiment
    study: str
    series: dict[str, tuple[StudyRun, ...]]
    skipped: MissingReason | None = None

    @property
    def study_runs(self) -> tuple[StudyRun, ...]:
        return tuple(case for cases in self.series.values() for case in cases)


@dataclass(frozen=True)
class Snapshots:
    """Run folder -> the rounds before which its training stores its state. They change no result: as an object Snakemake leaves
    them out when it compares, so that no run is asked for again because of a study."""

    rounds: dict[Path, frozenset[int]]


def plan_studies(planned: PlannedExperiment, params: Params, paths: Paths) -> dict[str, PlannedStudy]:
    """Every study there is, of an experiment at the active scale. Raises UserError for settings that cannot be met."""
    return {name: _plan(name, planned, params, paths) for name in registry.names("studies")}


def _plan(name: str, planned: PlannedExperiment, params: Params, paths: Paths) -> PlannedStudy:
    title = registry.find("studies", name).Study.title
    values = planned.training.studies.get(name) if planned.training else None
    if planned.skipped or values is None:
        return PlannedStudy(planned, name, {}, planned.skipped or MissingReason(MissingKind.NO_STUDY, study=title))
    with error_prefix_at_scale(params, planned.paper, planned.name) as where:
        for run in planned.runs:
            check_study(name, values, run.config, where)
    found = {
        series.label: [find_study(run, name, values, paths, planned.paper) for run in series.runs] for series in planned.series
    }
    cases = [case for group in found.values() for case in group]
    if None in cases:
        reason = MissingReason(MissingKind.WEIGHTS_GONE, missing=cases.count(None), total=len(cases), study=title)
        return PlannedStudy(planned, name, {}, reason)
    missing = [case for case in cases if not case.done_file.exists()] if params.report_only else []
    if missing:
        reason = MissingReason(MissingKind.NOT_FINISHED, missing=len(missing), total=len(cases), study=title)
        return PlannedStudy(planned, name, {}, reason)
    return PlannedStudy(planned, name, {label: tuple(group) for label, group in found.items()})


def find_study(run: Run, name: str, values: dict[str, Any], paths: Paths, paper: str) -> StudyRun | None:
    """The study of a run, done or to be done; None where it cannot be, because nothing is left of a kept run to start from."""
    study = studies.create(name, values, run.config)
    if is_kept(run.folder):
        if done := finished_in(run.folder, study):
            return StudyRun(run, study, done[0])
        run = finished_runs.stored_runs(paths.runs(paper)).get(finished_runs.run_key(run.config, run.data))
        if run is None or not study.can_start(run.folder):
            return None
    return StudyRun(run, study, run.folder / f"{file_stem(study)}.csv")


def finished_in(folder: Path, study: Study) -> list[Path]:
    """The tables of a run's finished studies with these settings, whatever code made them, today's first."""
    own = {stem: note for stem, note in integrity.load_studies(folder).items() if stem.startswith(f"{study.name}-")}
    same = [stem for stem, note in own.items() if _asks(note["settings"], study)]
    return [folder / f"{stem}.csv" for stem in sorted(same, key=lambda stem: own[stem]["code"] != study_code_digest(study))]


def _asks(stored: dict[str, Any], study: Study) -> bool:
    """Whether stored settings are the study's, in today's words: a setting that came later counts at its default."""
    try:
        return studies.settings(study.name, stored) == study.settings
    except UserError:
        return False


def study_code_digest(study: Study) -> str:
    """Hash of the code that makes it."""
    return provenance.code_digest(*executed_modules(study))


def executed_modules(study: Study) -> tuple[tuple[str, ...], str]:
    """The modules that a study executes, and where it starts, as `provenance.code_digest` takes them."""
    return provenance.modules(study.config), f"fedrepro.studies.{study.name}"


def file_stem(study: Study) -> str:
    """The name of its files: a hash of settings and code."""
    key = provenance.value_digest([study.settings.model_dump(mode="json"), study_code_digest(study)])
    return f"{study.name}-{key}"


def work_items(studied: Iterable[PlannedStudy]) -> list[WorkItem[StudyRun]]:
    """Every study that is not kept, once, named by the first experiment and series that need it."""
    first: dict[Path, WorkItem[StudyRun]] = {}
    for item in studied:
        for label, cases in item.series.items():
            for case in cases:
                experiment = f"{item.study}_{item.planned.paper}_{item.planned.name}"
                first.setdefault(case.table, WorkItem(experiment, f"{label}_s{case.run.config.seed}", case, case.done_file))
    return [piece for piece in first.values() if not piece.work.is_kept]


def unfinished(chosen: Iterable[PlannedExperiment], params: Params, paths: Paths) -> list[StudyRun]:
    """The studies of some experiments that are not over."""
    found = work_items(item for planned in chosen for item in plan_studies(planned, params, paths).values())
    return [piece.work for piece in found if not piece.done_file.exists()]


def snapshots(cases: Iterable[StudyRun]) -> Snapshots:
    """What the trainings of the studied runs store on the way."""
    found: dict[Path, frozenset[int]] = defaultdict(frozenset)
    for case in cases:
        if rounds := case.study.snapshots():
            found[case.run.folder] |= rounds
    return Snapshots(dict(found))


def by_run_folder(cases: Iterable[StudyRun]) -> dict[Path, dict[str, Any]]:
    """Run folder -> its studies, as `export.write` takes them along."""
    found: dict[Path, dict[str, Any]] = {}
    for case in cases:
        own = found.setdefault(case.run.folder, {"studies": {}})["studies"].setdefault(case.study.name, [])
        own.append(case.study.settings.model_dump(mode="json"))
    return found


def from_run_list(path: Path, paths: Paths) -> list[StudyRun]:
    """The studies in a list of runs. Raises UserError where they are none."""
    runs, records = run_list.read(path, paths), json.loads(path.read_text(encoding="utf-8"))
    found = []
    for run, record in zip(runs, records, strict=True):
        asked = record.get("studies", {})
        if not isinstance(asked, dict) or not all(isinstance(every, list) for every in asked.values()):
            raise UserError(
                f"{path}: {run.id}: studies: expected name -> list of settings; write it with: fedrepro plan --export"
            )
        for name, settings in asked.items():
            found += [find_study(run, name, values, paths, run.folder.parent.name) for values in settings]
    return [case for case in found if case is not None]


def done_files(studied: Iterable[PlannedStudy]) -> list[Path]:
    """The files that say that studies are over."""
    return list(dict.fromkeys(case.done_file for item in studied for case in item.study_runs))


def study_files(case: StudyRun) -> list[Path]:
    """What a study leaves and looks at, and the folder that holds it: a kept run may still owe its study its weights."""
    from fedrepro.training.replay import snapshot_path

    folder = case.table.parent
    states = [snapshot_path(folder, round) for round in case.study.snapshots()]
    return [folder, case.table, case.done_file, case.partial_file, *states, *(path.with_suffix(".clients") for path in states)]


def required_files(case: StudyRun, paths: Paths) -> list[Path]:
    """The files without which a study cannot be made."""
    run = case.run
    return [run.summary, paths.prepared(run.config.dataset) / "meta.json", paths.partition(run.config, run.data)]


def study_note(studied: PlannedStudy, params: Params) -> dict[str, Any]:
    """What the gathered results of a study say beside their numbers."""
    asked = studied.planned.training.studies.get(studied.study) if studied.planned.training else None
    settings = studies.settings(studied.study, asked)
    own = {"experiment": f"{studied.planned.name}-{studied.study}", **reasons.to_note(studied.skipped)}
    own |= {"study": studied.study, "settings": settings and settings.model_dump(mode="json")}
    shared = experiments.experiment_note(studied.planned, params)
    if studied.skipped:
        shared.pop("missing", None)
    return shared | own | ({"series": {}} if studied.skipped else {})


def result_sources(studied: PlannedStudy, params: Params) -> ResultSources:
    """What reports get of a study of an experiment."""
    runs = () if studied.skipped else studied.planned.runs
    over = [*(run.summary for run in runs), *done_files([studied])]
    folders = {} if studied.skipped else experiments.run_folders(studied.planned)
    tables = {label: [case.table for case in cases] for label, cases in studied.series.items()}
    return ResultSources(study_note(studied, params), folders, tables, over)


def cost_bound(case: StudyRun) -> Run:
    """A run that costs what the study does at most."""
    return Run(case.table.parent, case.study.cost_bound(case.run.folder), case.run.data, case.run.code)
