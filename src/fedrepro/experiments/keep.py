"""Add finished runs and studies to the committed results (`runs.records`)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import check_no_links, single_process
from fedrepro.experiments import run_lookup, study_plan
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.records import RECORD
from fedrepro.runs.run import Run, run_id
from fedrepro.studies.base import Study

LOCK = ".kept.lock"  # in results/; only one process at a time changes what is kept
Commit = dict[str, str | None]  # a commit and its date


def keep(chosen: list[PlannedExperiment], paths: Paths) -> list[Path]:
    """Add finished runs and their finished studies to `results/kept/`, to be committed.

    A kept run is looked up by its config and data alone. So a run that earlier code finished is
    kept too, if today's code has not run, and a run of today's code replaces the kept one.

    Returns the kept runs' names, as folders.

    Raises UserError, before anything is changed, for runs and studies whose code is not that of a
    commit, or whose records are damaged.
    """
    with single_process(paths.results / LOCK):
        new_runs = {
            new.folder: (new, item.paper, old)
            for item in chosen
            for new, old in _runs_to_keep(item, paths)
        }
        commits: dict[Path, Commit | str] = {
            folder: _run_commit(new) for folder, (new, _, _) in new_runs.items()
        }
        ids = {
            (paper, run_lookup.run_key(new.config, new.data)): new.id
            for new, paper, _ in new_runs.values()
        }
        tables = {
            table: study for item in chosen for study, table in studies_to_keep(item, paths, ids)
        }
        study_commits = {table: study_commit(table, study) for table, study in tables.items()}
        refused = [
            f"{path}: {reason}"
            for path, reason in (commits | study_commits).items()
            if isinstance(reason, str)
        ]
        refused += _lost_studies([(new, old) for new, _, old in new_runs.values() if old], tables)
        if refused:
            raise UserError("\n".join(refused))
        papers = {
            paper: dict(records.load_kept(paths.kept(paper)))
            for paper in {item.paper for item in chosen}
        }
        for new, paper, old in new_runs.values():
            if old:
                del papers[paper][old.id]
            record = records.load(new.folder)
            papers[paper][new.id] = record | {
                "environment": record["environment"] | commits[new.folder],
                "studies": {},
            }
        changed = {paper for _, paper, _ in new_runs.values()}
        for table in tables:
            study, paper, run = (
                records.load_study(table),
                table.parent.parent.name,
                table.parent.name,
            )
            del study["run"]
            record = papers[paper][run]
            papers[paper][run] = record | {"studies": record["studies"] | {table.stem: study}}
            changed.add(paper)
        for paper in changed:
            check_no_links(paths.kept(paper).parent)
            records.save(paths.kept(paper), [record for _, record in sorted(papers[paper].items())])
    names = [paths.kept(paper) / new.id for new, paper, _ in new_runs.values()]
    return list(
        dict.fromkeys(
            [
                *names,
                *(paths.kept(table.parent.parent.name) / table.parent.name for table in tables),
            ]
        )
    )


def _runs_to_keep(item: PlannedExperiment, paths: Paths) -> Iterator[tuple[Run, Run | None]]:
    """Yield the finished runs of an experiment that are to be kept, each with the kept run that it
    replaces."""
    finished, kept_runs = (
        run_lookup.stored_runs(folder(item.paper)) for folder in (paths.runs, paths.kept)
    )
    for run in item.runs:
        key = run_lookup.run_key(run.config, run.data)
        today = paths.runs(item.paper) / run_id(run.config, run.data)
        new = replace(run, folder=today) if (today / RECORD).exists() else finished.get(key)
        if new is None or (key in kept_runs and kept_runs[key].id in (new.id, today.name)):
            continue
        if key not in kept_runs or new.folder == today:
            yield new, kept_runs.get(key)


def _lost_studies(replaced: Iterable[tuple[Run, Run]], tables: Mapping[Path, Study]) -> list[str]:
    """Return a message for each study of a kept run that the run in its place would not have."""
    lost = []
    for new, old in replaced:
        added = [table for table in tables if table.parent.name == new.id]
        for stem, note in records.load_studies(old.folder).items():
            name = stem.rpartition("-")[0]
            if not any(
                tables[one].name == name and study_plan.has_settings(tables[one], note["settings"])
                for one in added
            ):
                lost.append(
                    f"{new.folder}: replaces the kept run {old.id}, but lacks its study {name}; "
                    f"finish that study first"
                )
    return lost


def _run_commit(run: Run) -> Commit | str:
    """Return the commit whose code trained a run, or why there is none. Raises UserError for a
    damaged record."""
    record = records.load(run.folder)
    return _commit_with_code(
        record["environment"]["commit"], record["code"], provenance.modules(run.config)
    )


def study_commit(table: Path, study: Study) -> Commit | str:
    """Return the commit whose code made a study, or why there is none. Raises UserError for a
    damaged record."""
    record = records.load_study(table)
    return _commit_with_code(
        record["environment"]["commit"], record["code"], *study_plan.executed_modules(study)
    )


def _commit_with_code(recorded: str, code: str, *executed: Any) -> Commit | str:
    """Return the recorded commit, if it has this code, or today's; else why neither can be named.

    Args:
        recorded: a commit, perhaps marked as changed since, or unknown.
        executed: modules, as `provenance.committed_digest` takes them.
    """
    today, dirty = (
        provenance.current_commit().removesuffix(provenance.DIRTY),
        recorded.endswith(provenance.DIRTY),
    )
    recorded = recorded.removesuffix(provenance.DIRTY)
    commit = today if recorded == "unknown" else recorded  # made outside a checkout
    # made before it was committed
    if dirty and provenance.committed_digest(today, *executed) == code:
        commit = today
    committed = provenance.committed_digest(commit, *executed)
    if committed is None and provenance.commit_date(commit) is None:
        _, problem = provenance.head_commit()
        advice = f"git: {problem}" if problem else "keep it in a checkout that has that commit"
        return f"names commit {recorded}, whose code cannot be read here; {advice}"
    if committed != code:
        advice = (
            "commit that code and keep it then" if dirty else "keep it in a checkout of that commit"
        )
        return (
            f"its code digest is not that of commit {commit}: the code differs, or an earlier "
            f"version computed digests differently; {advice}, or delete it, commit the code and "
            "run again"
        )
    return {"commit": commit, "commit_date": provenance.commit_date(commit)}


def studies_to_keep(
    item: PlannedExperiment, paths: Paths, ids: Mapping[tuple[str, str], str]
) -> Iterator[tuple[Study, Path]]:
    """Yield the finished studies that are not kept yet, of runs of an experiment that are kept or
    will be, with their tables.

    Args:
        ids: paper and run key -> name of a run that will be kept.
    """
    settings = {
        name: values
        for name, values in (item.training.studies if item.training else {}).items()
        if values is not None
    }
    if not settings:
        return
    kept_runs = run_lookup.stored_runs(paths.kept(item.paper))
    for run in item.runs:
        key = run_lookup.run_key(run.config, run.data)
        kept_run = kept_runs.get(key)
        id = ids.get((item.paper, key), kept_run.id if kept_run else None)
        if id is None:
            continue
        for name, values in settings.items():
            study = studies.create(name, values, run.config)
            if kept_run and kept_run.id == id and study_plan.finished_in(kept_run.folder, study):
                continue
            for table in study_plan.finished_in(paths.runs(item.paper) / id, study)[:1]:
                yield study, table
