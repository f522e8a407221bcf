"""The study of new clients (engine/newcomers.py) as work: which runs it follows, where its results lie, how they are made.

A study is a function of a run and the study's settings. It leaves two files in the run's folder, named by the hash of the
settings and of the code: `newcomers-<hash>.csv` (client, epoch, accuracy), which grows client by client, so that a killed study
goes on after the last complete one, and `newcomers-<hash>.json`, which is there exactly if the study is over. A run that was
kept has no weights: there a study that was kept with it counts, or one of the run's original folder where that still exists.
"""

import csv
import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedrepro import datasets, experiments, export, provenance, training
from fedrepro.config import Choice, Newcomers, Params, RunConfig, parse
from fedrepro.datasets import Dataset
from fedrepro.engine import checkpoint
from fedrepro.engine.newcomers import Adaptation
from fedrepro.engine.run import Limits, Run, pick_device
from fedrepro.errors import UserError
from fedrepro.experiments import Paths, Planned
from fedrepro.files import replacing
from fedrepro.results import is_kept

log = logging.getLogger(__name__)
COLUMNS = ("client", "epoch", "accuracy")
ENTRY = "fedrepro.engine.newcomers"


@dataclass(frozen=True)
class Study:
    """New clients of one run, whose weights they receive."""

    run: Run
    settings: Newcomers
    table: Path

    @property
    def note(self) -> Path:
        return self.table.with_suffix(".json")


@dataclass(frozen=True)
class Studied:
    """The studies of an experiment's series, seed by seed; `skipped` says why there are none."""

    planned: Planned
    series: dict[str, tuple[Study, ...]]
    skipped: str | None = None

    @property
    def studies(self) -> tuple[Study, ...]:
        return tuple(study for studies in self.series.values() for study in studies)


@dataclass(frozen=True)
class Batch:
    """The studies of one series, made by one process."""

    name: str
    studies: tuple[Study, ...]


def plan(planned: Planned, params: Params, paths: Paths) -> Studied:
    """The studies of an experiment at the active scale. Raises UserError for settings that cannot be met."""
    if planned.skipped:
        return Studied(planned, {}, planned.skipped)
    settings = planned.training.newcomers
    if settings is None:
        return Studied(planned, {}, "no new clients at this scale")
    for run in planned.runs:
        _check(settings, run.config, f"papers.{planned.paper}.{planned.name}.newcomers at scale {params.scale}")
    found = {series.label: [find(run, settings, paths, planned.paper) for run in series.runs] for series in planned.series}
    studies = [study for group in found.values() for study in group]
    if None in studies:
        reason = f"{studies.count(None)} of {len(studies)} runs are kept without their weights, from which new clients start"
        return Studied(planned, {}, reason)
    missing = [study for study in studies if not study.note.exists()] if params.only_finished else []
    if missing:
        return Studied(planned, {}, f"{len(missing)} of {len(studies)} studies of new clients are not finished")
    return Studied(planned, {label: tuple(group) for label, group in found.items()})


def _check(settings: Newcomers, config: RunConfig, where: str) -> None:
    if not config.partition.options.get("permute_pixels"):
        raise UserError(f"{where}: new clients differ by their pixel order: partition.permute_pixels must be true")
    _, train, test = datasets.extent(config.dataset)
    for key, asked, kind, there in (
        ("images", settings.images or 0, "train", config.train_images or train),
        ("clients", settings.clients, "test", config.test_images or test),
    ):
        if asked > there:
            raise UserError(f"{where}: {key}: the run has {there} {kind} images (got {asked})")


def find(run: Run, settings: Newcomers, paths: Paths, paper: str) -> Study | None:
    """The study of a run, done or to be done; None where it cannot be, because a kept run's weights are gone."""
    if is_kept(run.folder):
        if notes := finished_in(run.folder, run.config, settings):
            return Study(run, settings, notes[0].with_suffix(".csv"))
        run = experiments.stored_runs(paths.runs(paper)).get(experiments.same(run.config, run.data))
        if run is None or not (run.folder / "model.safetensors").exists():
            return None
    return Study(run, settings, run.folder / f"newcomers-{_key(run.config, settings)}.csv")


def finished_in(folder: Path, config: RunConfig, settings: Newcomers) -> list[Path]:
    """The notes of finished studies with these settings in a run's folder, whatever code made them, today's first."""
    told = {note: json.loads(note.read_text(encoding="utf-8")) for note in sorted(folder.glob("newcomers-*.json"))}
    same = [note for note in told if told[note]["settings"] == settings.model_dump(mode="json")]
    return sorted(same, key=lambda note: told[note]["code"] != _code(config))


def _code(config: RunConfig) -> str:
    return provenance.code_digest(config.partition.name, config.model.name, config.algorithm.name, ENTRY)


def _key(config: RunConfig, settings: Newcomers) -> str:
    return provenance.digest([settings.model_dump(mode="json"), _code(config)])


def batches(studied: Iterable[Studied]) -> list[Batch]:
    """Every study that is not kept, once: grouped by the first experiment and series that need it."""
    seen: set[Path] = set()
    found = []
    for item in studied:
        for index, studies in enumerate(item.series.values()):
            new = tuple(study for study in studies if study.note not in seen and not is_kept(study.table.parent))
            seen |= {study.note for study in new}
            if new:
                found.append(Batch(f"{item.planned.paper}_{item.planned.name}_{index}", new))
    return found


def unfinished(chosen: Iterable[Planned], params: Params, paths: Paths) -> list[Study]:
    """The studies of some experiments that are not over."""
    found = batches(plan(item, params, paths) for item in chosen)
    return [study for batch in found for study in batch.studies if not study.note.exists()]


def listed(studies: list[Study]) -> dict[Path, dict[str, Any]]:
    """Run folder -> its studies, as `export.write` takes them along."""
    found: dict[Path, dict[str, Any]] = {}
    for study in studies:
        found.setdefault(study.run.folder, {"newcomers": []})["newcomers"].append(study.settings.model_dump(mode="json"))
    return found


def read(path: Path, paths: Paths) -> list[Study]:
    """The studies in a list of runs."""
    runs, records = export.read(path, paths), json.loads(path.read_text(encoding="utf-8"))
    wanted = [(run, values) for run, record in zip(runs, records, strict=True) for values in record.get("newcomers", ())]
    found = [find(run, parse(Newcomers, values, str(path)), paths, run.folder.parent.name) for run, values in wanted]
    return [study for study in found if study is not None]


def notes(studied: Iterable[Studied]) -> list[Path]:
    """The files that say that studies are over."""
    return list(dict.fromkeys(study.note for item in studied for study in item.studies))


def conduct(
    studies: Iterable[Study],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: str = "auto",
    deadline: float | None = None,
) -> list[Study]:
    """Bring every study to its end; finished ones cost nothing. Returns those that `deadline`, on the monotonic clock, cut off
    after a whole client. Raises UserError where weights or data are not the run's."""
    place, limits, left = None, Limits(deadline=deadline), []
    for study in studies:
        if study.note.exists():
            continue
        if left or limits.forbid(0):
            left.append(study)
            continue
        place = place or pick_device(device)
        log.info("new clients of %s on %s", study.run.id, place)
        if not _conduct(study, training.dataset(study.run.config.dataset, paths, mirror), place, limits):
            left.append(study)
    return left


def _conduct(study: Study, dataset: Dataset, place: torch.device, limits: Limits) -> bool:
    run, path = study.run, study.run.folder / "model.safetensors"
    if dataset.meta["identity"] != run.data:
        raise UserError(f"{dataset.name}: not the data that {run.id} was trained on; delete data/prepared and start again")
    if not path.exists():
        raise UserError(f"{path}: no such file; new clients start from it: copy it there, or delete the folder to train again")
    state, _ = checkpoint.load(path)
    rows, last = _read(study.table), 0.0
    done = {row[0] for row in rows}
    adaptation = Adaptation(study.settings, run.config, dataset, (state.weights, state.server), place)
    for client in range(0 if state.diverged else study.settings.clients):
        if client in done:
            continue
        if limits.forbid(last):  # the next client will take about as long as the last
            return False
        began = time.monotonic()
        rows += [(client, epoch, accuracy) for epoch, accuracy in adaptation.follow(client)]
        _write(study.table, rows)
        last = time.monotonic() - began
        log.info("new client %d: own-test accuracy %.4f after %d epochs", client, rows[-1][2], rows[-1][1])
    _write(study.table, rows)
    told = {"run": run.id, "settings": study.settings.model_dump(mode="json"), "code": _code(run.config)}
    told["environment"] = provenance.environment(place)
    with replacing(study.note) as temporary:
        temporary.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return True


def _read(path: Path) -> list[tuple[int, int, float]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [(int(row["client"]), int(row["epoch"]), float(row["accuracy"])) for row in csv.DictReader(file)]


def _write(path: Path, rows: list[tuple[int, int, float]]) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def note(studied: Studied, params: Params) -> dict[str, Any]:
    """What the gathered results of the studies say beside their numbers."""
    training = studied.planned.training
    settings = training.newcomers.model_dump(mode="json") if training and training.newcomers else None
    own = {"experiment": f"{studied.planned.name}-newcomers", "skipped": studied.skipped, "newcomers": settings}
    shared = experiments.note(studied.planned, params)
    return shared | own | ({"series": {}} if studied.skipped else {})


def folders(studied: Studied) -> dict[str, list[Path]]:
    """Label -> the run folders of its seeds; none where the studies are skipped."""
    return {} if studied.skipped else experiments.folders(studied.planned)


def tables(studied: Studied) -> dict[str, list[Path]]:
    """Label -> the studies' tables of its seeds."""
    return {label: [study.table for study in studies] for label, studies in studied.series.items()}


def at_most(study: Study) -> Run:
    """A run that costs what the study does if no client reaches the target."""
    config, settings = study.run.config, study.settings
    _, train, _ = datasets.extent(config.dataset)
    clients = config.partition.options["clients"]
    if settings.images:
        clients = max(1, (config.train_images or train) // settings.images)
    partition = Choice(name=config.partition.name, **config.partition.options | {"clients": clients})
    changes = {"rounds": settings.epochs, "clients_per_round": settings.clients, "local_epochs": 1, "partition": partition}
    return Run(study.table.parent, config.model_copy(update=changes), study.run.data, study.run.code)
