"""Full disks: `fedrepro train` where the disk has room for a part of what it writes, then the same command with enough room.
The first ends with one message that names a full disk, the second with the bytes of an undisturbed run; nothing half-written
stays.

The disk is a small real file system, a tmpfs, mounted for this campaign alone; where none can be mounted (that takes root, or
`unshare -rm` before the command), the limit is that of a single file (RLIMIT_FSIZE), which stands in the figures.

`python -m tests.campaigns.full_disks --seed 0 --count 10`
"""

import contextlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedrepro.cli import main
from support.settings import fig
from tests.campaigns import cases, kills
from tests.campaigns.cases import Failed

SETTINGS = fig(
    rounds=6,
    partition={"name": "permuted", "clients": 3},
    proxy={"share": 0.1},
    series={"A": {"name": "scaffold"}, "Prox": None},
    studies={"newcomers": {"clients": 2, "target": 0.9, "epochs": 2}, "activations": {"every": 2}},
) | {"checkpoint_seconds": 0}
PAGE = 4096


def mounted(folder: Path, kilobytes: int, *more: str) -> bool:
    """Whether a file system of this size is there now."""
    options = ",".join([f"size={kilobytes}k", *more])
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    return done.returncode == 0


@contextlib.contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A file system of this size at `folder`."""
    if not mounted(folder, kilobytes):
        raise Failed("a file system could be mounted before, and cannot be now")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def limited(size: int) -> int:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return main.main(["train"])


class Disks:
    """Cases that share the undisturbed run."""

    def __init__(self, folder: Path) -> None:
        self.folder, whole = folder, kills.place(folder / "whole", SETTINGS)
        if (ended := cases.command(whole, "train")).code:
            raise SystemExit(f"the undisturbed run: {ended.text}")
        self.whole = made(whole)
        sizes = [-(-path.stat().st_size // PAGE) * PAGE for path in whole.rglob("*") if path.is_file()]
        self.needed, self.largest = sum(sizes), max(sizes)
        (folder / "probe").mkdir()
        self.mounts = mounted(folder / "probe", 64)
        if self.mounts:
            subprocess.run(["umount", str(folder / "probe")], check=True)

    def __call__(self, number: int, draw: random.Random) -> str:
        """A room that is drawn from none to somewhat more than what stays: while it works, a run needs more."""
        place = self.folder / f"disk{number}"
        place.mkdir()
        if not self.mounts:
            kills.place(place / "work", SETTINGS)
            ended = cases.ended(place / "work", lambda: limited(draw.randrange(1, self.largest)))
            return self.judged(place / "work", ended, "RLIMIT_FSIZE")
        with disk(place, draw.randrange(24, round(1.2 * self.needed / 1024))):
            work = kills.place(place / "work", SETTINGS)
            ended = cases.ended(work, lambda: main.main(["train"]))
            if not mounted(place, 10 * self.needed // 1024, "remount"):
                raise Failed("the file system could not be made larger")
            return self.judged(work, ended, "tmpfs")

    def judged(self, place: Path, ended: cases.Ended, kind: str) -> str:
        if ended.code and "No space left" not in (message := cases.one_message(ended)) and "File too large" not in message:
            raise Failed(f"the message does not say that the disk is full: {message}")
        if (again := cases.command(place, "train")).code:
            raise Failed(f"the same command: {again.text[-3000:]}\nafter: {ended.text[-1500:]}")
        if other := cases.different(self.whole, made(place)):
            raise Failed(f"other bytes: {other}\nafter: {ended.text[-1500:]}")
        shutil.rmtree(place)
        return f"full and reported, {kind}" if ended.code else f"had room, {kind}"


def made(place: Path) -> dict[str, bytes]:
    return cases.contents(place / "data", place / "results")


if __name__ == "__main__":
    options = cases.parse_options("full_disks", 10)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(cases.run_campaign("full_disks", lambda: Disks(Path(folder)), options))
