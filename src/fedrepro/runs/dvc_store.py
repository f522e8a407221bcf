"""Copies of finished runs between `results/runs/`, where the pipeline trains, and
`results/stored/`, which DVC stores.

`dvc exp run`, `dvc exp apply` and `dvc checkout` reset a folder that DVC tracks to the state in
`dvc.lock` and delete all else in it. So DVC does not track the folder in which runs are trained.
"""

import logging
import os
import shutil
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, check_no_links, is_locked
from fedrepro.runs import records
from fedrepro.runs.records import RECORD
from fedrepro.runs.run import LOG

log = logging.getLogger(__name__)
PARTIAL_SUFFIXES = {".part", ".begun"}  # of files that a killed process or study left


def store(runs: Path, stored: Path) -> list[Path]:
    """Copy finished runs, with studies and snapshots, from `runs` to `stored`. Returns the changed
    folders in `stored`.

    A stored run is replaced if the same run was trained again to other bits. Damaged runs are
    skipped with a warning.
    """
    stored.mkdir(parents=True, exist_ok=True)
    changed = []
    for run in _intact_runs(runs):
        target = stored / run.name
        if not _is_writable(target):
            continue
        if target.exists() and not _same_results(run, target):
            shutil.rmtree(target)
        changed += _copy_missing(run, target)
    return changed


def restore(stored: Path, runs: Path) -> list[Path]:
    """Copy finished runs from `stored` to `runs`. Returns the changed folders in `runs`.

    Damaged runs, and runs that were trained here too to other bits, are skipped with a warning. A
    run that has begun here stays as it is.
    """
    changed = []
    for run in _intact_runs(stored):
        target = runs / run.name
        if not _is_writable(target):
            continue
        if (target / RECORD).exists() and not _same_results(run, target):
            log.warning("%s: left alone, of another training than %s", target, run)
        elif not any(target.glob("checkpoint.*")) and not is_locked(target / LOG):
            changed += _copy_missing(run, target)
    return changed


def _intact_runs(folder: Path) -> list[Path]:
    """Return the finished runs in a folder whose settings, numbers and studies are as they were
    written."""
    intact = []
    for run in sorted(path.parent for path in folder.glob(f"*/{RECORD}")):
        try:
            check_no_links(run)  # a link may point to files that are not the run's
            records.load(run)
            records.load_studies(run)
        except UserError as error:
            log.warning("left out: %s", error)
        else:
            intact.append(run)
    return intact


def _is_writable(target: Path) -> bool:
    """Return whether a run's folder may be written, deleted or made; warn if not."""
    try:
        if os.path.lexists(target):
            check_no_links(target)
    except UserError as error:
        log.warning("left alone: %s", error)
        return False
    return True


def _same_results(run: Path, other: Path) -> bool:
    """Return whether two intact or damaged copies of a run have the same numbers, made alike; times
    differ each time."""
    try:
        first, second = records.load(run), records.load(other)
    except UserError:
        return False
    return all(first[name] == second[name] for name in ("metrics", "environment"))


def _copy_missing(source: Path, target: Path) -> list[Path]:
    """Link or copy the files of a run that `target` lacks, the record last. Returns `[target]` if
    there were any, else `[]`.

    The log is always copied, since it is appended to in place.
    """
    names = [
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in PARTIAL_SUFFIXES
    ]
    new = not (target / RECORD).exists()
    missing = [name for name in names if new or not (target / name).exists()]
    for name in sorted(missing, key=lambda name: (name.name == RECORD, name)):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target / name) as part:
            if name.name == LOG or not _try_link(source / name, part):
                shutil.copy2(source / name, part)
    return [target] if missing else []


def _try_link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system without links
        return False
    return True
