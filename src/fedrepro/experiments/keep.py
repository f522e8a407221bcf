"""Finished runs and studies, copied to results/kept to be committed."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import read_whole_json, write_json
from fedrepro.experiments import finished_runs, study_plan
from fedrepro.experiments.plan import Planned
from fedrepro.runs import integrity
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import FILES, SUMMARY, Run, run_id
from fedrepro.studies.base import Study

log = logging.getLogger(__name__)


def keep(chosen: list[Planned], paths: Paths) -> list[Path]:
    """Copy the small files of finished runs to `results/kept/`, to be committed. Returns the new folders.

    A kept run is found by its config and data alone. So one that earlier code finished is kept too, if today's has not run,
    and a run of today's code takes the place of what is kept. Finished studies go along. Raises UserError, before anything is
    copied, for runs and studies whose code is not that of a commit, or whose numbers are damaged.
    """
    waiting = {found.folder: (found, item.paper, old) for item in chosen for found, old in _waiting(item, paths)}
    origins = {folder: _origin(found) for folder, (found, _, _) in waiting.items()}
    ids = {(paper, finished_runs.same(found.config, found.data)): found.id for found, paper, _ in waiting.values()}
    studied = [case for item in chosen for case in _studied(item, paths, ids)]
    said = origins | {note: _vouched_study(note, study) for _, study, note in studied}
    if refused := [f"{path}: {why}" for path, why in said.items() if isinstance(why, str)]:
        raise UserError("\n".join(refused))
    new = []
    for folder, (found, paper, old) in waiting.items():
        new.append(paths.kept(paper) / found.id)
        _copy(folder, new[-1], origins[folder])
        if old is not None:  # after the copy, so that no moment has neither
            shutil.rmtree(old.folder)
    kept = {item.paper: finished_runs.stored_runs(paths.kept(item.paper)) for item in chosen}
    for run, study, note in studied:
        paper = note.parent.parent.name
        if (shelf := kept[paper].get(finished_runs.same(run.config, run.data))) and not study_plan.finished_in(
            shelf.folder, study
        ):
            for path in (note.with_suffix(".csv"), note):
                shutil.copyfile(path, shelf.folder / path.name)
            new.append(shelf.folder)
    return list(dict.fromkeys(new))


def _waiting(item: Planned, paths: Paths) -> Iterator[tuple[Run, Run | None]]:
    """The finished runs of an experiment that are to be kept, each with what is kept in its place now."""
    done, kept = finished_runs.stored_runs(paths.runs(item.paper)), finished_runs.stored_runs(paths.kept(item.paper))
    for run in item.runs:
        key = finished_runs.same(run.config, run.data)
        today = paths.runs(item.paper) / run_id(run.config, run.data)
        found = replace(run, folder=today) if (today / SUMMARY).exists() else done.get(key)
        if found is None or (key in kept and kept[key].id in (found.id, today.name)):
            continue
        if key not in kept or found.folder == today:
            yield found, kept.get(key)


def _origin(run: Run) -> dict[str, str | None] | str:
    """The commit whose code trained a run, as its environment.json says it; else why that cannot be said. Raises UserError for
    numbers that are not the run's."""
    integrity.metrics(run.folder)
    if missing := [name for name in FILES if not (run.folder / name).exists()]:
        return f"lacks {', '.join(missing)}; delete the folder and run again"
    named, code = _json(run.folder / "environment.json")["commit"], integrity.settings(run.folder)["code"]
    return _vouched(named, code, provenance.modules(run.config))


def _vouched_study(note: Path, study: Study) -> dict[str, str | None] | str:
    """The same of a finished study."""
    table = note.with_suffix(".csv")
    integrity.table(table)
    told = read_whole_json(note, "environment", "code", advice=integrity.advice(note.parent, table))
    return _vouched(told["environment"]["commit"], told["code"], *study_plan.executed(study))


def _vouched(named: str, code: str, *executed: Any) -> dict[str, str | None] | str:
    """A commit that has this code, where it is the one that is named; else what to say. `executed`: see
    `provenance.committed_digest`."""
    today, dirty = provenance.commit().removesuffix(provenance.DIRTY), named.endswith(provenance.DIRTY)
    named = named.removesuffix(provenance.DIRTY)
    commit = today if named == "unknown" else named  # made outside a checkout
    if dirty and provenance.committed_digest(today, *executed) == code:  # made before it was committed
        commit = today
    committed = provenance.committed_digest(commit, *executed)
    if committed is None and provenance.commit_date(commit) is None:
        return f"names commit {named}, whose code cannot be read here; keep it in a checkout that has that commit"
    if committed != code:
        advice = "commit that code and keep it then" if dirty else "keep it in a checkout of that commit"
        return (
            f"comes from code that commit {commit} does not have, or that was named by another rule than today's; {advice}, or "
            "delete it, commit the code and make it anew"
        )
    return {"commit": commit, "commit_date": provenance.commit_date(commit)}


def _copy(source: Path, target: Path, origin: dict[str, str | None]) -> None:
    """The small files of a run; environment.json with the commit as it was found."""
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(source / name, target / name)
    path = target / "environment.json"
    write_json(path, _json(path) | origin)


def _json(path: Path) -> dict[str, Any]:
    return read_whole_json(path, advice=integrity.advice(path.parent))


def _studied(item: Planned, paths: Paths, ids: Mapping[tuple[str, str], str]) -> Iterator[tuple[Run, Study, Path]]:
    """The finished studies, that are not kept yet, of an experiment's runs that are kept or will be, each with its note. `ids`:
    paper and question -> the run that will be. A study names the run that it is of, so that no other's can stand for it."""
    asked = {name: values for name, values in (item.training.studies if item.training else {}).items() if values is not None}
    kept = finished_runs.stored_runs(paths.kept(item.paper)) if asked else {}
    for run in item.runs if asked else ():
        key = finished_runs.same(run.config, run.data)
        shelf = kept.get(key)
        id = ids.get((item.paper, key), shelf.id if shelf else None)
        for name, values in asked.items() if id else ():
            study = studies.create(name, values, run.config)
            if shelf and shelf.id == id and study_plan.finished_in(shelf.folder, study):
                continue
            for note in study_plan.finished_in(paths.runs(item.paper) / id, study)[:1]:
                yield run, study, note
