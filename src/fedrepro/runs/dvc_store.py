"""The finished runs that DVC stores, `results/stored/`, beside those that the pipeline works in, `results/runs/`.

`dvc exp run`, `dvc exp apply` and `dvc checkout` put a folder of DVC's back to what `dvc.lock` says of it and delete what else
lies there. So the folder that runs are trained in is none of DVC's.
"""

import logging
import os
import shutil
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, check_no_links, is_locked
from fedrepro.runs import integrity
from fedrepro.runs.run import LOG, RESULT_FILES, SUMMARY

log = logging.getLogger(__name__)
COMPARED_FILES = tuple(
    name for name in RESULT_FILES if name != "timing.json"
)  # what another training of the same run does not share
PARTIAL_SUFFIXES = {".part", ".begun"}  # what a process, or a study, left that did not come to its end


def store(runs: Path, stored: Path) -> list[Path]:
    """Give DVC's folder the finished runs, with studies and snapshots, that it lacks; one that was trained anew is stored anew,
    a damaged one is left out with a warning. Returns the folders there that were given something."""
    stored.mkdir(parents=True, exist_ok=True)
    given = []
    for run in _intact_runs(runs):
        twin = stored / run.name
        if not _is_writable(twin):
            continue
        if twin.exists() and not _same_results(run, twin):
            shutil.rmtree(twin)
        given += _copy_missing(run, twin)
    return given


def restore(stored: Path, runs: Path) -> list[Path]:
    """Give the runs' folder what DVC brought and it lacks. A damaged run is left out with a warning, as is one that was trained
    here too, to other bits; one that was begun here goes on as it is. Returns the folders there that were given something."""
    given = []
    for run in _intact_runs(stored):
        twin = runs / run.name
        if not _is_writable(twin):
            continue
        if (twin / SUMMARY).exists() and not _same_results(run, twin):
            log.warning("%s: left alone, of another training than %s", twin, run)
        elif not any(twin.glob("checkpoint.*")) and not is_locked(twin / LOG):
            given += _copy_missing(run, twin)
    return given


def _intact_runs(folder: Path) -> list[Path]:
    """Its finished runs whose settings, numbers and studies are as they were written."""
    found = []
    for run in sorted(path.parent for path in folder.glob(f"*/{SUMMARY}")):
        try:
            check_no_links(run)  # what a link points to is nobody's to store
            integrity.load_metrics(run)
            for name in integrity.load_studies(run):
                integrity.load_study_rows(run / f"{name}.csv")
        except UserError as error:
            log.warning("left out: %s", error)
        else:
            found.append(run)
    return found


def _is_writable(twin: Path) -> bool:
    """Whether a folder may be written and deleted, or made; a warning says why not."""
    try:
        if os.path.lexists(twin):
            check_no_links(twin)
    except UserError as error:
        log.warning("left alone: %s", error)
        return False
    return True


def _same_results(run: Path, twin: Path) -> bool:
    return all((twin / name).is_file() and (run / name).read_bytes() == (twin / name).read_bytes() for name in COMPARED_FILES)


def _copy_missing(source: Path, target: Path) -> list[Path]:
    """Link, or copy, what a run has in one folder and lacks in the other, the summary last; `[target]` if there was any. A
    log, which is written on in place, is copied."""
    names = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix not in PARTIAL_SUFFIXES]
    new = not (target / SUMMARY).exists()
    lacking = [name for name in names if new or not (target / name).exists()]
    for name in sorted(lacking, key=lambda name: (name.name == SUMMARY, name)):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target / name) as part:
            if name.name == LOG or not _try_link(source / name, part):
                shutil.copy2(source / name, part)
    return [target] if lacking else []


def _try_link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system that has no links
        return False
    return True
