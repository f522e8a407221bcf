"""Finished runs and studies, copied to results/kept to be committed, each file listed in results/kept/SHA256SUMS."""

import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import (
    abandoned,
    alone,
    check_own,
    json_text,
    part,
    read_file,
    replacing,
    sweep_below,
    text_digest,
)
from fedrepro.experiments import finished_runs, study_plan
from fedrepro.experiments.plan import Planned
from fedrepro.runs import integrity
from fedrepro.runs.integrity import SUMS
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import FILES, SUMMARY, Run, code_digest, run_id
from fedrepro.studies.base import Study

log = logging.getLogger(__name__)
LOCK = ".kept.lock"  # beside results/kept; only one process at a time changes what is kept
Contents = dict[Path, dict[str, bytes]]  # folder -> the files to be put there


def keep(chosen: list[Planned], paths: Paths) -> list[Path]:
    """Copy the small files of finished runs to `results/kept/`, to be committed. Returns the new folders.

    A kept run is found by its config and data alone. So one that earlier code finished is kept too, if today's has not run,
    and a run of today's code takes the place of what is kept. Finished studies go along. Raises UserError, before anything is
    copied, for runs and studies whose code is not that of a commit, or whose numbers are damaged.
    """
    with alone(paths.results / LOCK):
        contents, replaced = _contents(chosen, paths)
        if contents or replaced:
            _place(contents, replaced, paths.results / "kept")
    return list(contents)


def _contents(chosen: list[Planned], paths: Paths) -> tuple[Contents, set[Path]]:
    """What is to be kept, and the folders whose place it takes."""
    waiting = {found.folder: (found, item.paper, old) for item in chosen for found, old in _waiting(item, paths)}
    origins = {folder: _origin(found) for folder, (found, _, _) in waiting.items()}
    ids = {(paper, finished_runs.same(found.config, found.data)): found.id for found, paper, _ in waiting.values()}
    studied = {note: study for item in chosen for study, note in _studied(item, paths, ids)}
    said = origins | {note: _vouched_study(note, study) for note, study in studied.items()}
    if refused := [f"{path}: {why}" for path, why in said.items() if isinstance(why, str)]:
        raise UserError("\n".join(refused))
    contents: Contents = defaultdict(dict)
    for folder, (found, paper, _) in waiting.items():
        contents[paths.kept(paper) / found.id] |= _files(folder, origins[folder])
    for note in studied:
        target = paths.kept(note.parent.parent.name) / note.parent.name
        contents[target] |= {path.name: read_file(path) for path in (note.with_suffix(".csv"), note)}
    superseded = {run.folder for paper in {item.paper for item in chosen} for run in _superseded(paths.kept(paper))}
    return dict(contents), superseded | {old.folder for _, _, old in waiting.values() if old}


def _superseded(shelf: Path) -> Iterator[Run]:
    """The kept runs in whose place one of today's code is kept: a kill left both."""
    answering = finished_runs.stored_runs(shelf)
    for run in finished_runs.begun_runs(shelf):
        other = answering[finished_runs.same(run.config, run.data)]
        if other.id != run.id and other.code == code_digest(other.config):
            yield run


def _files(folder: Path, origin: dict[str, str | None]) -> dict[str, bytes]:
    """The small files of a run; environment.json with the commit as it was found."""
    found = {name: read_file(folder / name, integrity.advice(folder)) for name in FILES}
    return found | {"environment.json": json_text(integrity.environment(folder) | origin).encode()}


def _place(contents: Contents, replaced: Iterable[Path], kept: Path) -> None:
    """Put each new run in its place by one rename. The new SHA256SUMS is written before and takes its place after, so that the
    next `keep` ends what a kill broke off."""
    new = {target: _prepared(files, _aside(target)) for target, files in contents.items() if not target.exists()}
    gone = {_below(folder) for folder in replaced}
    sums = {name: sum for name, sum in integrity.sums(kept).items() if name.rpartition("/")[0] not in gone}
    for target, files in contents.items():
        sums |= {f"{_below(target)}/{name}": text_digest(content) for name, content in files.items()}
    with replacing(part(kept / SUMS)) as path:
        path.write_text(integrity.written_sums(sums), encoding="utf-8")
    for target, files in contents.items():
        if target in new:
            target.parent.mkdir(exist_ok=True)
            new[target].rename(target)
            continue
        for name in sorted(files):  # of a study: the table, then the note that says that it is over
            with replacing(target / name) as path:
                path.write_bytes(files[name])
    for folder in replaced:  # after the copy, so that no moment has neither
        shutil.rmtree(folder.rename(_aside(folder)))
    part(kept / SUMS).replace(kept / SUMS)


def _below(folder: Path) -> str:
    """A run's folder as SHA256SUMS names it."""
    return "/".join(folder.parts[-2:])


def _aside(folder: Path) -> Path:
    """Where a kept run's folder is made, or unmade: beside those of the papers, where nobody looks for runs."""
    return part(folder.parents[1] / _below(folder).replace("/", "-"))


def _prepared(files: Mapping[str, bytes], folder: Path) -> Path:
    """A folder with these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def settle(results: Path) -> None:
    """Bring SHA256SUMS in order before anything kept is read: end what a killed `keep` began, take the lines of both sides
    where git could not merge, and sort. A line that not all of these have counts where its file is there."""
    kept = results / "kept"
    if not os.path.lexists(kept):
        return
    check_own(kept)
    with alone(results / LOCK):
        path = kept / SUMS
        before = read_file(path) if path.exists() else b""
        texts = [_lines(before), *(_lines(read_file(begun)) for begun in abandoned(path))]
        said: dict[str, list[str]] = defaultdict(list)
        for undisputed, disputed in texts:
            for name, sum in (*undisputed.items(), *disputed):
                said[name].append(sum)
        agreed = {name for name, sums in said.items() if len(set(sums)) == 1 and all(name in text for text, _ in texts)}
        sums = {name: sums[0] if name in agreed else _there(kept / name, sums) for name, sums in said.items()}
        text = integrity.written_sums({name: sum for name, sum in sums.items() if sum})
        if text.encode() != before:
            with replacing(path) as new:
                new.write_text(text, encoding="utf-8")
        sweep_below(kept)


def _lines(content: bytes) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The lines of a SHA256SUMS, and those between the marks of a conflict or against an earlier line."""
    undisputed, disputed, torn = {}, [], False
    for number, line in enumerate(integrity.sum_lines(content), 1):
        if line.startswith(integrity.CONFLICT):
            torn = not line.startswith(integrity.CONFLICT[-1])
            continue
        name, sum = integrity.parse_sum(line, f"{SUMS}: line {number}")
        if torn or undisputed.setdefault(name, sum) != sum:
            disputed.append((name, sum))
    return undisputed, disputed


def _there(path: Path, sums: list[str]) -> str | None:
    """The one of these that is of the file, else the first; None where there is no file."""
    if not path.exists():
        return None
    found = text_digest(read_file(path))
    return found if found in sums else sums[0]


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
    named, code = integrity.environment(run.folder)["commit"], integrity.settings(run.folder)["code"]
    return _vouched(named, code, provenance.modules(run.config))


def _vouched_study(note: Path, study: Study) -> dict[str, str | None] | str:
    """The same of a finished study."""
    table = note.with_suffix(".csv")
    integrity.table(table)
    again = integrity.advice(note.parent, table)
    told = integrity.read_result(note, "environment", "code", told=again)
    named = told["environment"].get("commit") if isinstance(told["environment"], dict) else None
    integrity.hold_commit(named, note, again)
    return _vouched(named, told["code"], *study_plan.executed(study))


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
        _, words = provenance.head()
        advice = f"git: {words}" if words else "keep it in a checkout that has that commit"
        return f"names commit {named}, whose code cannot be read here; {advice}"
    if committed != code:
        advice = "commit that code and keep it then" if dirty else "keep it in a checkout of that commit"
        return (
            f"comes from code that commit {commit} does not have, or that was named by another rule than today's; {advice}, or "
            "delete it, commit the code and make it anew"
        )
    return {"commit": commit, "commit_date": provenance.commit_date(commit)}


def _studied(item: Planned, paths: Paths, ids: Mapping[tuple[str, str], str]) -> Iterator[tuple[Study, Path]]:
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
                yield study, note
