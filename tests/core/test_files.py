"""Atomic writes, what killed processes leave, and locks."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedrepro.core.errors import UserError
from fedrepro.core.files import MACHINE, atomic_write, is_locked, single_process, temporary_path

KILLED = """import os, pathlib, sys
from fedrepro.core.files import atomic_write
with atomic_write(pathlib.Path(sys.argv[1])) as new:
    new.touch()
    os.kill(os.getpid(), 9)
"""


def test_what_killed_processes_left_goes_with_the_next_whole_file(tmp_path):
    path = tmp_path / "a[1].json"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -9
    (left,) = tmp_path.iterdir()
    kept = {
        tmp_path / f".{path.name}.{MACHINE}-{os.getppid()}.part": "of a process that runs",
        tmp_path / f".{path.name}.000000-{left.stem.rpartition('-')[2]}.part": "of another machine",
        tmp_path / left.name.replace("a[1]", "b"): "of another file",
    }
    for other in kept:
        other.touch()
    with atomic_write(path) as temporary:
        assert temporary == temporary_path(path)
        temporary.write_text("whole")
    with pytest.raises(ValueError, match="no"), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise ValueError("no")
    assert set(tmp_path.iterdir()) == {path, *kept} and path.read_text() == "whole"


def as_on_nfs(handle, wanted):
    """Linux makes its locks there of fcntl's, which ask for a file that may be written."""
    if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    return flock(handle, wanted)


def without_locks(*_):
    raise OSError(errno.ENOSYS, "Function not implemented")


flock = fcntl.flock


@pytest.mark.parametrize("disk", [flock, as_on_nfs, without_locks])
def test_only_one_process_holds_a_file(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", disk)
    path, locks = tmp_path / "log.txt", disk is not without_locks
    assert not is_locked(path) and not path.exists()
    with single_process(path, wait=False), single_process(tmp_path / "lock"):
        assert is_locked(path) == locks
        if locks:
            with (
                pytest.raises(UserError, match=f"^{tmp_path}: "),
                single_process(path, wait=False),
            ):
                pass
    assert not is_locked(path) and path.exists()


@pytest.mark.parametrize("kind", ["pipe", "link", "dangling", "folder"])
def test_a_lock_is_a_file(kind, tmp_path):
    """A pipe is not waited for, nothing is written through a link."""
    path, other = tmp_path / "lock", tmp_path / "other"
    other.write_text("mine")
    if kind in ("pipe", "folder"):
        {"pipe": os.mkfifo, "folder": Path.mkdir}[kind](path)
    else:
        path.symlink_to(other if kind == "link" else "absent")
    with pytest.raises(UserError, match=f"^{path}: "), single_process(path):
        pass
    assert (
        not is_locked(path) and other.read_text() == "mine" and not (tmp_path / "absent").exists()
    )
