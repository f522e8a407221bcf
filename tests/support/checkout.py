"""The files of the checkout that git has or would take, in a folder of their own.

Tests read this copy: what a user's commands made in the checkout (data, runs, pages, databases) is
not in it, and nothing is written to the checkout. Where there is no git, tests read the folder
itself.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).parents[2]


def copy(folder: Path) -> Path:
    """Copy the tracked files, and new ones that git does not ignore, into a folder and return it.

    Raises OSError or CalledProcessError where there is no git.
    """
    command = [
        "git",
        "-C",
        str(HERE),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in listed:
        if (HERE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / name, folder / name)
    return folder


def _copied() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fedrepro-")).resolve()
    try:
        return copy(folder / "fedrepro")
    except (OSError, subprocess.CalledProcessError):
        folder.rmdir()
        return HERE


def remove() -> None:
    """Delete the copy."""
    if ROOT != HERE:
        shutil.rmtree(ROOT.parent)


ROOT = _copied()


class _Plain(yaml.SafeDumper):
    """Without aliases, which settings may not have."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def save(path: Path, values: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.dump(values, Dumper=_Plain, sort_keys=False), encoding="utf-8")
