"""The plan of studies (fedrepro.studies): which runs they examine, and their files. `study_runner.py` makes them.

A study is a function of a run and of its own settings. It leaves two files in the run's folder, named by the study and the hash
of settings and code: the table `<study>-<hash>.csv`, and `<study>-<hash>.json`, which exists exactly if the study is finished.
Until then `<study>-<hash>.begun` holds the rows so far, so that a killed study continues after its last complete unit. In a job
of Snakemake, which deletes all outputs if one fails, it stays until the whole job is done.
A kept run has no weights: its study is one that was kept with it, or one made from the run's original folder if that exists.
"""

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
from fedrepro.core.files import read_records
from fedrepro.experiments import plan as experiments
from fedrepro.experiments import run_list, run_lookup
from fedrepro.experiments.jobs import WorkItem
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.experiments.resolve import check_study, error_prefix_at_scale
from fedrepro.runs import reasons, records
from fedrepro.runs.gather import ResultSources
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
        """Whether the study was kept with its run; then `table` is only a name, without a file."""
        return self.run.is_kept

    @property
    def done_file(self) -> Path:
        """The file that exists exactly if the study is finished."""
        return self.run.summary if self.is_kept else self.table

    @property
    def partial_file(self) -> Path:
        """The file with the rows so far of an unfinished study."""
        return self.table.with_suffix(".begun")


@dataclass(frozen=True)
class PlannedStudy:
    """One study of an experiment: of each run of each series. `skipped` says why there are none."""

    experiment: PlannedExperiment
    study_name: str
    series: dict[str, tuple[StudyRun, ...]]
    skipped: MissingReason | None = None

    @property
    def study_runs(self) -> tuple[StudyRun, ...]:
        return tuple(study_run for group in self.series.values() for study_run in group)


@dataclass(frozen=True)
class Snapshots:
    """The rounds before which trainings store their state, for studies.

    They are wrapped in a class because Snakemake ignores objects when it compares parameters: a new study trains nothing again.
    """

    rounds: dict[Path, frozenset[int]]  # by run folder


def plan_studies(experiment: PlannedExperiment, params: Params, paths: Paths) -> dict[str, PlannedStudy]:
    """Plan every study of an experiment at the active scale, by name. Raises UserError for settings that are not valid."""
    return {name: _plan(name, experiment, params, paths) for name in registry.names("studies")}


def _plan(name: str, experiment: PlannedExperiment, params: Params, paths: Paths) -> PlannedStudy:
    title = registry.find("studies", name).Study.title
    settings = experiment.training.studies.get(name) if experiment.training else None
    if experiment.skipped or settings is None:
        reason = experiment.skipped or MissingReason(MissingKind.NO_STUDY, study=title)
        return PlannedStudy(experiment, name, {}, reason)
    with error_prefix_at_scale(params, experiment.paper, experiment.name) as where:
        for run in experiment.runs:
            check_study(name, settings, run.config, where)
    series: dict[str, tuple[StudyRun, ...]] = {}
    total = without_weights = pending = 0
    for one in experiment.series:
        study_runs = [find_study(run, name, settings, paths, experiment.paper) for run in one.runs]
        possible = tuple(study_run for study_run in study_runs if study_run is not None)
        total += len(study_runs)
        without_weights += len(study_runs) - len(possible)
        pending += sum(not study_run.done_file.exists() for study_run in possible)
        series[one.label] = possible
    reason = None
    if without_weights:
        reason = MissingReason(MissingKind.WEIGHTS_GONE, missing=without_weights, total=total, study=title)
    elif pending and params.report_only:
        reason = MissingReason(MissingKind.NOT_FINISHED, missing=pending, total=total, study=title)
    return PlannedStudy(experiment, name, {} if reason else series, reason)


def find_study(run: Run, name: str, settings: dict[str, Any], paths: Paths, paper: str) -> StudyRun | None:
    """Return the study of a run, finished or not; None for a kept run without the weights to start from."""
    study = studies.create(name, settings, run.config)
    if run.is_kept:
        if tables := finished_in(run.folder, study):
            return StudyRun(run, study, tables[0])
        original = run_lookup.stored_runs(paths.runs(paper)).get(run_lookup.run_key(run.config, run.data))
        if original is None or not study.can_start(original.folder):
            return None
        run = original
    return StudyRun(run, study, run.folder / f"{file_stem(study)}.json")


def finished_in(folder: Path, study: Study) -> list[Path]:
    """Return the tables of a run's finished studies with these settings, whatever code made them; today's first."""
    notes = {stem: note for stem, note in records.load_studies(folder).items() if stem.startswith(f"{study.name}-")}
    stems = [stem for stem, note in notes.items() if has_settings(study, note["settings"])]
    return [folder / f"{stem}.json" for stem in sorted(stems, key=lambda stem: notes[stem]["code"] != study_code_digest(study))]


def has_settings(study: Study, stored: dict[str, Any]) -> bool:
    """Return whether stored settings are the study's; a setting that was added later has its default."""
    try:
        return studies.settings(study.name, stored) == study.settings
    except UserError:
        return False


def study_code_digest(study: Study) -> str:
    """Return the hash of the code that makes a study."""
    return provenance.code_digest(*executed_modules(study))


def executed_modules(study: Study) -> tuple[tuple[str, ...], str]:
    """Return the modules that a study executes and the one in which it starts, as `provenance.code_digest` takes them."""
    return provenance.modules(study.config), f"fedrepro.studies.{study.name}"


def file_stem(study: Study) -> str:
    """Return the name of a study's files without ending: its own name, and a hash of settings and code."""
    key = provenance.value_digest([study.settings.model_dump(mode="json"), study_code_digest(study)])
    return f"{study.name}-{key}"


def work_items(planned: Iterable[PlannedStudy]) -> list[WorkItem[StudyRun]]:
    """Return every study that is not kept, once, named after the first experiment and series that need it."""
    items: dict[Path, WorkItem[StudyRun]] = {}
    for study in planned:
        name = f"{study.study_name}_{study.experiment.paper}_{study.experiment.name}"
        for label, study_runs in study.series.items():
            for study_run in study_runs:
                item = WorkItem(name, f"{label}_s{study_run.run.config.seed}", study_run, study_run.done_file)
                items.setdefault(study_run.table, item)
    return [item for item in items.values() if not item.work.is_kept]


def unfinished(chosen: Iterable[PlannedExperiment], params: Params, paths: Paths) -> list[StudyRun]:
    """Return the unfinished studies of some experiments."""
    items = work_items(study for experiment in chosen for study in plan_studies(experiment, params, paths).values())
    return [item.work for item in items if not item.done_file.exists()]


def snapshots(study_runs: Iterable[StudyRun]) -> Snapshots:
    """Return the states that the trainings of studied runs have to store."""
    rounds: dict[Path, frozenset[int]] = defaultdict(frozenset)
    for study_run in study_runs:
        if needed := study_run.study.snapshots():
            rounds[study_run.run.folder] |= needed
    return Snapshots(dict(rounds))


def by_run_folder(study_runs: Iterable[StudyRun]) -> dict[Path, dict[str, Any]]:
    """Return the settings of studies by run folder, as `run_list.write` stores them with the runs."""
    records: dict[Path, dict[str, Any]] = {}
    for study_run in study_runs:
        by_name = records.setdefault(study_run.run.folder, {"studies": {}})["studies"]
        by_name.setdefault(study_run.study.name, []).append(study_run.study.settings.model_dump(mode="json"))
    return records


def from_run_list(path: Path, paths: Paths) -> list[StudyRun]:
    """Read the studies in a list of runs. Raises UserError if they are damaged."""
    runs, records = run_list.read(path, paths), read_records(path)
    study_runs: list[StudyRun | None] = []
    for run, record in zip(runs, records, strict=True):
        by_name = record.get("studies", {})
        if not isinstance(by_name, dict) or not all(isinstance(every, list) for every in by_name.values()):
            raise UserError(
                f"{path}: {run.id}: studies: expected name -> list of settings; write it with: fedrepro plan --export"
            )
        for name, every in by_name.items():
            study_runs += [find_study(run, name, settings, paths, run.folder.parent.name) for settings in every]
    return [study_run for study_run in study_runs if study_run is not None]


def done_files(planned: Iterable[PlannedStudy]) -> list[Path]:
    """Return the files that exist exactly if studies are finished."""
    return list(dict.fromkeys(study_run.done_file for study in planned for study_run in study.study_runs))


def study_files(study_run: StudyRun) -> list[Path]:
    """Return all files that a study writes or reads in its run's folder, and that folder: a run that was kept meanwhile may
    still be needed for its weights."""
    from fedrepro.training.replay import snapshot_path

    folder = study_run.table.parent
    states = [snapshot_path(folder, round) for round in study_run.study.snapshots()]
    client_states = [path.with_suffix(".clients") for path in states]
    return [folder, study_run.table, study_run.done_file, study_run.partial_file, *states, *client_states]


def required_files(study_run: StudyRun, paths: Paths) -> list[Path]:
    """Return the files without which a study cannot be made."""
    run = study_run.run
    return [run.summary, paths.prepared(run.config.dataset) / "meta.json", paths.partition(run.config, run.data)]


def study_note(study: PlannedStudy, params: Params) -> dict[str, Any]:
    """Return the description of a study that is stored with its results."""
    experiment, name = study.experiment, study.study_name
    settings = studies.settings(name, experiment.training.studies.get(name) if experiment.training else None)
    note = experiments.experiment_note(experiment, params)
    note |= {"experiment": f"{experiment.name}-{name}", **reasons.to_note(study.skipped)}
    note |= {"study": name, "settings": settings and settings.model_dump(mode="json")}
    if study.skipped:
        note.pop("missing", None)
        note["series"] = {}
    return note


def result_sources(study: PlannedStudy, params: Params) -> ResultSources:
    """Return what reports read of a study of an experiment."""
    runs = () if study.skipped else study.experiment.runs
    finished = [*(run.summary for run in runs), *done_files([study])]
    folders = {} if study.skipped else experiments.run_folders(study.experiment)
    tables = {label: [study_run.table for study_run in study_runs] for label, study_runs in study.series.items()}
    return ResultSources(study_note(study, params), folders, tables, finished)


def cost_bound(study_run: StudyRun) -> Run:
    """Return a run that costs at least as much as a study."""
    run, folder = study_run.run, study_run.table.parent
    return Run(folder, study_run.study.cost_bound(run.folder), run.data, run.code)
