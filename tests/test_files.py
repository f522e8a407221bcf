"""Files that take their place whole, and what killed processes leave beside them."""

import os
import subprocess
import sys

import pytest

from fedrepro.files import MACHINE, part, replacing

KILLED = """import os, pathlib, sys
from fedrepro.files import replacing
with replacing(pathlib.Path(sys.argv[1])) as new:
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
    with replacing(path) as temporary:
        assert temporary == part(path)
        temporary.write_text("whole")
    assert set(tmp_path.iterdir()) == {path, *kept} and path.read_text() == "whole"


def test_a_block_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ValueError, match="no"), replacing(path) as temporary:
        temporary.write_text("half")
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "old"
