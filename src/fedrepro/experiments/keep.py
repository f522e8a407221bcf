"""Add finished runs and studies to the committed results (`runs.kept`)."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import single_process
from fedrepro.experiments import finished_runs, study_plan
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.runs import integrity, kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import RESULT_FILES, SUMMARY, Run, run_id
from fedrepro.studies.base import Study

LOCK = ".kept.lock"  # beside results/kept; only one process at a time changes what is kept
Origin = dict[str, str | None]  # a commit and its date


def keep(chosen: list[PlannedExperiment], paths: Paths) -> list[Path]:
    """Add finished runs and their finished studies to `results/kept/`, to be committed. Returns the runs' names, as folders.

    A kept run is found by its config and data alone. So one that earlier code finished is kept too, if today's has not run,
    and a run of today's code takes the place of what is kept. Raises UserError, before anything is changed, for runs and
    studies whose code is not that of a commit, or whose numbers are damaged.
    """
    with single_process(paths.results / LOCK):
        waiting = {found.folder: (found, item.paper, old) for item in chosen for found, old in _waiting(item, paths)}
        origins: dict[Path, Origin | str] = {folder: _origin(found) for folder, (found, _, _) in waiting.items()}
        ids = {(paper, finished_runs.run_key(found.config, found.data)): found.id for found, paper, _ in waiting.values()}
        tables = {table: study for item in chosen for study, table in _studied(item, paths, ids)}
        study_origins = {table.with_suffix(".json"): _study_origin(table, study) for table, study in tables.items()}
        if refused := [f"{path}: {why}" for path, why in (origins | study_origins).items() if isinstance(why, str)]:
            raise UserError("\n".join(refused))
        if waiting or tables:
            folder = paths.results / "kept"
            papers = kept.load_all(folder)
            for run, paper, old in waiting.values():
                own = papers.setdefault(paper, kept.KeptPaper())
                if old:
                    own.remove(old.id)
                record = integrity.load_record(run.folder)
                environment = record["environment"] | origins[run.folder]
                own.add(record | {"environment": environment}, integrity.load_metrics(run.folder))
            for table in tables:
                note = integrity.load_studies(table.parent)[table.stem]
                own_note = {name: value for name, value in note.items() if name != "run"}
                papers[table.parent.parent.name].add_study(
                    table.parent.name, table.stem, own_note, integrity.load_study_rows(table)
                )
            kept.save(folder, papers)
    new = [paths.kept(paper) / run.id for run, paper, _ in waiting.values()]
    return list(dict.fromkeys([*new, *(paths.kept(table.parent.parent.name) / table.parent.name for table in tables)]))


def recover(results: Path) -> None:
    """Bring the kept files in order before they are read: see `kept.settle`."""
    if os.path.lexists(results / "kept"):
        with single_process(results / LOCK):
            kept.recover(results / "kept")


def _waiting(item: PlannedExperiment, paths: Paths) -> Iterator[tuple[Run, Run | None]]:
    """The finished runs of an experiment that are to be kept, each with what is kept in its place now."""
    done, shelf = finished_runs.stored_runs(paths.runs(item.paper)), finished_runs.stored_runs(paths.kept(item.paper))
    for run in item.runs:
        key = finished_runs.run_key(run.config, run.data)
        today = paths.runs(item.paper) / run_id(run.config, run.data)
        found = replace(run, folder=today) if (today / SUMMARY).exists() else done.get(key)
        if found is None or (key in shelf and shelf[key].id in (found.id, today.name)):
            continue
        if key not in shelf or found.folder == today:
            yield found, shelf.get(key)


def _origin(run: Run) -> Origin | str:
    """The commit whose code trained a run, as the run says it; else why that cannot be said. Raises UserError for numbers that
    are not the run's."""
    integrity.load_metrics(run.folder)
    if missing := [name for name in RESULT_FILES if not (run.folder / name).exists()]:
        return f"lacks {', '.join(missing)}; delete the folder and run again"
    record = integrity.load_record(run.folder)
    return _vouched(record["environment"]["commit"], record["code"], provenance.modules(run.config))


def _study_origin(table: Path, study: Study) -> Origin | str:
    """The same of a finished study."""
    integrity.load_study_rows(table)
    again = integrity.repair_advice(table.parent, table)
    note = integrity.read_result(table.with_suffix(".json"), "environment", "code", advice=again)
    named = note["environment"].get("commit") if isinstance(note["environment"], dict) else None
    integrity.check_commit(named, table.with_suffix(".json"), again)
    return _vouched(named, note["code"], *study_plan.executed_modules(study))


def _vouched(named: str, code: str, *executed: Any) -> Origin | str:
    """A commit that has this code, where it is the one that is named; else what to say. `executed`: see
    `provenance.committed_digest`."""
    today, dirty = provenance.current_commit().removesuffix(provenance.DIRTY), named.endswith(provenance.DIRTY)
    named = named.removesuffix(provenance.DIRTY)
    commit = today if named == "unknown" else named  # made outside a checkout
    if dirty and provenance.committed_digest(today, *executed) == code:  # made before it was committed
        commit = today
    committed = provenance.committed_digest(commit, *executed)
    if committed is None and provenance.commit_date(commit) is None:
        _, words = provenance.head_commit()
        advice = f"git: {words}" if words else "keep it in a checkout that has that commit"
        return f"names commit {named}, whose code cannot be read here; {advice}"
    if committed != code:
        advice = "commit that code and keep it then" if dirty else "keep it in a checkout of that commit"
        return (
            f"comes from code that commit {commit} does not have, or that was named by another rule than today's; {advice}, or "
            "delete it, commit the code and make it anew"
        )
    return {"commit": commit, "commit_date": provenance.commit_date(commit)}


def _studied(item: PlannedExperiment, paths: Paths, ids: Mapping[tuple[str, str], str]) -> Iterator[tuple[Study, Path]]:
    """The finished studies, that are not kept yet, of an experiment's runs that are kept or will be, each with its table.
    `ids`: paper and question -> the run that will be."""
    asked = {name: values for name, values in (item.training.studies if item.training else {}).items() if values is not None}
    shelf = finished_runs.stored_runs(paths.kept(item.paper)) if asked else {}
    for run in item.runs if asked else ():
        key = finished_runs.run_key(run.config, run.data)
        on_shelf = shelf.get(key)
        id = ids.get((item.paper, key), on_shelf.id if on_shelf else None)
        for name, values in asked.items() if id else ():
            study = studies.create(name, values, run.config)
            if on_shelf and on_shelf.id == id and study_plan.finished_in(on_shelf.folder, study):
                continue
            for table in study_plan.finished_in(paths.runs(item.paper) / id, study)[:1]:
                yield study, table
