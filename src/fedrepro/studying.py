"""Studies (fedrepro.studies) as work: which runs they look at, where their answers lie, how they are made.

A study is a function of a run and its own settings. It leaves two files in the run's folder, named by the study and the hash of
settings and code: `<study>-<hash>.csv`, which grows unit by unit, so that a killed study goes on after the last complete one,
and `<study>-<hash>.json`, which is there exactly if the study is over. A run that was kept has no weights: there a study that
was kept with it counts, or one in the run's original folder where that still exists.
"""

import csv
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedrepro import experiments, export, provenance, registry, studies, training
from fedrepro.config import Params
from fedrepro.engine import executors
from fedrepro.engine.replay import snapshot
from fedrepro.engine.run import Limits, Run, pick_device
from fedrepro.errors import UserError
from fedrepro.experiments import Paths, Planned
from fedrepro.files import replacing
from fedrepro.results import is_kept
from fedrepro.studies import Study
from fedrepro.studies.base import Scene

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Case:
    """A study of one run."""

    run: Run
    study: Study
    table: Path

    @property
    def note(self) -> Path:
        return self.table.with_suffix(".json")


@dataclass(frozen=True)
class Studied:
    """One study of an experiment's series, seed by seed; `skipped` says why there are no cases."""

    planned: Planned
    study: str
    series: dict[str, tuple[Case, ...]]
    skipped: str | None = None

    @property
    def cases(self) -> tuple[Case, ...]:
        return tuple(case for cases in self.series.values() for case in cases)


@dataclass(frozen=True)
class Batch:
    """A study of one series, made by one process."""

    name: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Snapshots:
    """Run folder -> the rounds before which its training stores its state. They change no result: as an object Snakemake leaves
    them out when it compares, so that no run is asked for again because of a study."""

    rounds: dict[Path, frozenset[int]]


def plan(planned: Planned, params: Params, paths: Paths) -> dict[str, Studied]:
    """Every study there is, of an experiment at the active scale. Raises UserError for settings that cannot be met."""
    return {name: _plan(name, planned, params, paths) for name in registry.names("studies")}


def _plan(name: str, planned: Planned, params: Params, paths: Paths) -> Studied:
    title = registry.module("studies", name).Study.title
    values = planned.training.studies.get(name) if planned.training else None
    if planned.skipped or values is None:
        return Studied(planned, name, {}, planned.skipped or f"no {title} at this scale")
    for run in planned.runs:
        try:
            studies.create(name, values, run.config).check()
        except UserError as error:
            where = f"papers.{planned.paper}.{planned.name}.studies.{name} at scale {params.scale}"
            raise UserError(f"{where}: {error}") from None
    found = {series.label: [find(run, name, values, paths, planned.paper) for run in series.runs] for series in planned.series}
    cases = [case for group in found.values() for case in group]
    if None in cases:
        reason = f"{cases.count(None)} of {len(cases)} runs are kept without their weights, from which {title} start"
        return Studied(planned, name, {}, reason)
    missing = [case for case in cases if not case.note.exists()] if params.only_finished else []
    if missing:
        return Studied(planned, name, {}, f"{len(missing)} of {len(cases)} studies of {title} are not finished")
    return Studied(planned, name, {label: tuple(group) for label, group in found.items()})


def find(run: Run, name: str, values: dict[str, Any], paths: Paths, paper: str) -> Case | None:
    """The study of a run, done or to be done; None where it cannot be, because nothing is left of a kept run to start from."""
    study = studies.create(name, values, run.config)
    if is_kept(run.folder):
        if notes := finished_in(run.folder, study):
            return Case(run, study, notes[0].with_suffix(".csv"))
        run = experiments.stored_runs(paths.runs(paper)).get(experiments.same(run.config, run.data))
        if run is None or not study.possible(run.folder):
            return None
    return Case(run, study, run.folder / f"{name}-{_key(study)}.csv")


def finished_in(folder: Path, study: Study) -> list[Path]:
    """The notes of finished studies with these settings in a run's folder, whatever code made them, today's first."""
    told = {note: json.loads(note.read_text(encoding="utf-8")) for note in sorted(folder.glob(f"{study.name}-*.json"))}
    same = [note for note in told if told[note]["settings"] == study.settings.model_dump(mode="json")]
    return sorted(same, key=lambda note: told[note]["code"] != _code(study))


def _code(study: Study) -> str:
    config = study.config
    entry = f"fedrepro.studies.{study.name}"
    return provenance.code_digest(config.partition.name, config.model.name, config.algorithm.name, entry)


def _key(study: Study) -> str:
    return provenance.digest([study.settings.model_dump(mode="json"), _code(study)])


def batches(studied: Iterable[Studied]) -> list[Batch]:
    """Every study that is not kept, once: grouped by the first experiment and series that need it."""
    seen: set[Path] = set()
    found = []
    for item in studied:
        for index, cases in enumerate(item.series.values()):
            new = tuple(case for case in cases if case.note not in seen and not is_kept(case.table.parent))
            seen |= {case.note for case in new}
            if new:
                found.append(Batch(f"{item.study}_{item.planned.paper}_{item.planned.name}_{index}", new))
    return found


def unfinished(chosen: Iterable[Planned], params: Params, paths: Paths) -> list[Case]:
    """The studies of some experiments that are not over."""
    found = batches(item for planned in chosen for item in plan(planned, params, paths).values())
    return [case for batch in found for case in batch.cases if not case.note.exists()]


def snapshots(cases: Iterable[Case]) -> Snapshots:
    """What the trainings of the studied runs store on the way."""
    found: dict[Path, frozenset[int]] = defaultdict(frozenset)
    for case in cases:
        if rounds := case.study.snapshots():
            found[case.run.folder] |= rounds
    return Snapshots(dict(found))


def listed(cases: Iterable[Case]) -> dict[Path, dict[str, Any]]:
    """Run folder -> its studies, as `export.write` takes them along."""
    found: dict[Path, dict[str, Any]] = {}
    for case in cases:
        own = found.setdefault(case.run.folder, {"studies": {}})["studies"].setdefault(case.study.name, [])
        own.append(case.study.settings.model_dump(mode="json"))
    return found


def read(path: Path, paths: Paths) -> list[Case]:
    """The studies in a list of runs."""
    runs, records = export.read(path, paths), json.loads(path.read_text(encoding="utf-8"))
    found = []
    for run, record in zip(runs, records, strict=True):
        for name, settings in record.get("studies", {}).items():
            found += [find(run, name, values, paths, run.folder.parent.name) for values in settings]
    return [case for case in found if case is not None]


def notes(studied: Iterable[Studied]) -> list[Path]:
    """The files that say that studies are over."""
    return list(dict.fromkeys(case.note for item in studied for case in item.cases))


def files(case: Case) -> list[Path]:
    """What a study leaves and looks at, and the folder that holds it: a kept run may still owe its study its weights."""
    folder = case.table.parent
    return [folder, case.table, case.note, *(snapshot(folder, round) for round in case.study.snapshots())]


def needs(case: Case, paths: Paths) -> list[Path]:
    """The files without which a study cannot be made."""
    run = case.run
    return [run.summary, paths.prepared(run.config.dataset) / "meta.json", paths.partition(run.config, run.data)]


def conduct(
    cases: Iterable[Case],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: str = "auto",
    deadline: float | None = None,
) -> list[Case]:
    """Bring every study to its end; finished ones cost nothing. Returns those that `deadline`, on the monotonic clock, cut off
    after a whole unit. Raises UserError where weights or data are not the run's."""
    place, limits, left = None, Limits(deadline=deadline), []
    for case in cases:
        if case.note.exists():
            continue
        if left or limits.forbid(0):
            left.append(case)
            continue
        place = place or pick_device(device)
        log.info("%s of %s on %s", case.study.title, case.run.id, place)
        if not _conduct(case, _scene(case, paths, mirror, place, limits), limits):
            left.append(case)
    return left


def _scene(case: Case, paths: Paths, mirror: str | None, place: torch.device, limits: Limits) -> Scene:
    run = case.run
    data = training.dataset(run.config.dataset, paths, mirror)
    if data.meta["identity"] != run.data:
        raise UserError(f"{data.name}: not the data that {run.id} was trained on; delete data/prepared and start again")
    partition = training.partition(run.config, run.data, paths, mirror)
    return Scene(run.folder, data, partition, place, _executor(run, place), limits.forbid)


def _executor(run: Run, place: torch.device) -> str:
    """How the run was trained: another executor rounds its sums differently."""
    path = run.folder / "environment.json"
    told = json.loads(path.read_text(encoding="utf-8"))["executor"] if path.exists() else "auto"
    return told if told in executors.available(place) else "auto"


def _conduct(case: Case, scene: Scene, limits: Limits) -> bool:
    study, last = case.study, 0.0
    rows = _read(case.table)
    done, answer = {int(row[0]) for row in rows}, study.begin(scene)
    for unit in study.units():
        if unit in done:
            continue
        if limits.forbid(last):  # the next unit will take about as long as the last
            return False
        began = time.monotonic()
        found = answer(unit)
        if found is None:
            return False
        rows += [(unit, *row) for row in found]
        _write(case.table, study, rows)
        last = time.monotonic() - began
        log.info("%s: %s %d is done", study.title, study.columns[0], unit)
    _write(case.table, study, rows)
    told = {"run": case.run.id, "settings": study.settings.model_dump(mode="json"), "code": _code(study)}
    told["environment"] = provenance.environment(scene.device)
    with replacing(case.note) as temporary:
        temporary.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return True


def _read(path: Path) -> list[tuple]:
    """The rows that are there, as text, so that they are written again as they were."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def _write(path: Path, study: Study, rows: list[tuple]) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([study.columns, *rows])


def note(studied: Studied, params: Params) -> dict[str, Any]:
    """What the gathered results of a study say beside their numbers."""
    asked = studied.planned.training.studies.get(studied.study) if studied.planned.training else None
    settings = studies.settings(studied.study, asked)
    own = {"experiment": f"{studied.planned.name}-{studied.study}", "skipped": studied.skipped}
    own |= {"study": studied.study, "settings": settings and settings.model_dump(mode="json")}
    shared = experiments.note(studied.planned, params)
    return shared | own | ({"series": {}} if studied.skipped else {})


def folders(studied: Studied) -> dict[str, list[Path]]:
    """Label -> the run folders of its seeds; none where the studies are skipped."""
    return {} if studied.skipped else experiments.folders(studied.planned)


def tables(studied: Studied) -> dict[str, list[Path]]:
    """Label -> the studies' tables of its seeds."""
    return {label: [case.table for case in cases] for label, cases in studied.series.items()}


def at_most(case: Case) -> Run:
    """A run that costs what the study does at most."""
    return Run(case.table.parent, case.study.at_most(case.run.folder), case.run.data, case.run.code)
