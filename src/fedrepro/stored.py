"""The finished runs that DVC stores, `results/stored/`, beside those that the pipeline works in, `results/runs/`.

`dvc exp run`, `dvc exp apply` and `dvc checkout` put a folder of DVC's back to what `dvc.lock` says of it and delete what else
lies there. So the folder that runs are trained in is none of DVC's.
"""

import filecmp
import os
import shutil
from pathlib import Path

from fedrepro import intact
from fedrepro.files import held, replacing

SUMMARY = Path("summary.json")  # makes a run a finished one
HALF = {".part", ".begun"}  # what a process, or a study, left that did not come to its end


def store(runs: Path, stored: Path) -> list[Path]:
    """Give DVC's folder the finished runs, with studies and snapshots, that it lacks; one that was trained anew is stored anew.
    Returns the folders there that were given something."""
    stored.mkdir(parents=True, exist_ok=True)
    given = []
    for run in _finished(runs):
        twin = stored / run.name
        if (twin / SUMMARY).exists() and not filecmp.cmp(run / SUMMARY, twin / SUMMARY, shallow=False):
            shutil.rmtree(twin)
        given += _give(run, twin)
    return given


def restore(stored: Path, runs: Path) -> list[Path]:
    """Give the runs' folder what DVC brought and it lacks; a run that a process is at work in gets nothing. Returns the folders
    there that were given something. Raises UserError for a stored run whose settings or numbers are damaged."""
    given = []
    for run in _finished(stored):
        if not (runs / run.name / SUMMARY).exists():
            intact.settings(run)
            intact.metrics(run)
        given += _give(run, runs / run.name)
    return given


def _finished(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{SUMMARY}"))


def _give(source: Path, target: Path) -> list[Path]:
    """Link, or copy, what a run has in one folder and lacks in the other, the summary last; `[target]` if there was any."""
    names = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix not in HALF]
    new = not (target / SUMMARY).exists()
    lacking = [name for name in names if new or not (target / name).exists()]
    if not lacking or held(target):
        return []
    if new and target.exists():  # of an unfinished run
        shutil.rmtree(target)
    for name in sorted(lacking, key=lambda name: (name == SUMMARY, name)):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with replacing(target / name) as part:
            _link(source / name, part)
    return [target]


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system that has none
        shutil.copy2(source, target)
