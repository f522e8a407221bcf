"""The plan of studies (fedrepro.studies): which runs they examine, and their files.
`study_runner.py` makes them.

A study is a function of a run and of its own settings. It leaves two files in the run's folder,
named by the study and the hash of settings and code: the table `<study>-<hash>.csv`, and
`<study>-<hash>.json`, which exists exactly if the study is finished. Until then
`<study>-<hash>.begun` holds the rows so far, so that a killed study continues after its last
complete unit. In a job of Snakemake, which deletes all outputs if one fails, it stays until the
whole job is done. A kept run has no weights: its study is one that was kept with it, or one made
from the run's original folder if that exists.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.config import registry
from fedrepro.config.types import Frozen
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.experiments import run_lookup
from fedrepro.runs import records
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

    settings: Frozen | None
    series: dict[str, tuple[StudyRun, ...]]
    skipped: MissingReason | None = None

    @property
    def study_runs(self) -> tuple[StudyRun, ...]:
        return tuple(study_run for group in self.series.values() for study_run in group)


def plan_study(
    name: str,
    values: dict[str, Any] | None,
    series: Mapping[str, Sequence[Run]],
    paths: Paths,
    paper: str,
    finished_only: bool = False,
) -> PlannedStudy:
    """Plan a study of the runs of an experiment's series, unless it has to be finished and is not.

    Args:
        values: its settings; None if there is no such study.
    """
    title, settings = registry.find("studies", name).title, studies.settings(name, values)
    if values is None:
        return PlannedStudy(None, {}, MissingReason(MissingKind.NO_STUDY, study=title))
    found = {
        label: [find_study(run, name, values, paths, paper) for run in runs]
        for label, runs in series.items()
    }
    possible = {label: tuple(filter(None, group)) for label, group in found.items()}
    total, left = (sum(map(len, groups.values())) for groups in (found, possible))
    pending = sum(
        not study_run.done_file.exists() for group in possible.values() for study_run in group
    )
    if left < total:
        return PlannedStudy(
            settings,
            {},
            MissingReason(MissingKind.WEIGHTS_GONE, missing=total - left, total=total, study=title),
        )
    if pending and finished_only:
        return PlannedStudy(
            settings,
            {},
            MissingReason(MissingKind.NOT_FINISHED, missing=pending, total=total, study=title),
        )
    return PlannedStudy(settings, possible)


def find_study(
    run: Run, name: str, settings: dict[str, Any], paths: Paths, paper: str
) -> StudyRun | None:
    """Return the study of a run, finished or not; None for a kept run without the weights to start
    from."""
    study = studies.create(name, settings, run.config)
    if run.is_kept:
        if tables := finished_in(run.folder, study):
            return StudyRun(run, study, tables[0])
        original = run_lookup.stored_runs(paths.runs(paper)).get(
            run_lookup.run_key(run.config, run.data)
        )
        if original is None or not study.can_start(original.folder):
            return None
        run = original
    return StudyRun(run, study, run.folder / f"{file_stem(study)}.json")


def finished_in(folder: Path, study: Study) -> list[Path]:
    """Return the tables of a run's finished studies with these settings, whatever code made them;
    today's first."""
    notes = {
        stem: note
        for stem, note in records.load_studies(folder).items()
        if stem.startswith(f"{study.name}-")
    }
    stems = [stem for stem, note in notes.items() if has_settings(study, note["settings"])]
    return [
        folder / f"{stem}.json"
        for stem in sorted(stems, key=lambda stem: notes[stem]["code"] != study_code_digest(study))
    ]


def has_settings(study: Study, stored: dict[str, Any]) -> bool:
    """Return whether stored settings are the study's; a setting that was added later has its
    default."""
    try:
        return studies.settings(study.name, stored) == study.settings
    except UserError:
        return False


def study_code_digest(study: Study) -> str:
    """Return the hash of the code that makes a study."""
    return provenance.code_digest(*executed_modules(study))


def executed_modules(study: Study) -> tuple[tuple[str, ...], str]:
    """Return the modules that a study executes and the one in which it starts, as
    `provenance.code_digest` takes them."""
    return provenance.modules(study.config), f"fedrepro.studies.{study.name}"


def file_stem(study: Study) -> str:
    """Return the name of a study's files without ending: its own name, and a hash of settings and
    code."""
    key = provenance.value_digest(
        [study.settings.model_dump(mode="json"), study_code_digest(study)]
    )
    return f"{study.name}-{key}"


def snapshots(study_runs: Iterable[StudyRun]) -> dict[Path, frozenset[int]]:
    """Return the rounds before which the trainings of studied runs have to store their state, by
    run folder."""
    rounds: dict[Path, frozenset[int]] = defaultdict(frozenset)
    for study_run in study_runs:
        if needed := study_run.study.snapshots():
            rounds[study_run.run.folder] |= needed
    return dict(rounds)


def study_files(study_run: StudyRun) -> list[Path]:
    """Return all files that a study writes or reads in its run's folder, and that folder: a run
    that was kept meanwhile may still be needed for its weights."""
    from fedrepro.training.replay import snapshot_path

    folder = study_run.table.parent
    states = [snapshot_path(folder, round) for round in study_run.study.snapshots()]
    client_states = [path.with_suffix(".clients") for path in states]
    return [
        folder,
        study_run.table,
        study_run.done_file,
        study_run.partial_file,
        *states,
        *client_states,
    ]


def required_files(study_run: StudyRun, paths: Paths) -> list[Path]:
    """Return the files without which a study cannot be made."""
    run = study_run.run
    return [
        run.summary,
        paths.prepared(run.config.dataset) / "meta.json",
        paths.partition(run.config, run.data),
    ]


def cost_bound(study_run: StudyRun) -> Run:
    """Return a run that costs at least as much as a study."""
    run, folder = study_run.run, study_run.table.parent
    return Run(folder, study_run.study.cost_bound(run.folder), run.data, run.code)
