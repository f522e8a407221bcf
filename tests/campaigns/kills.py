"""Kills at random times, and terminations: `fedrepro train` on drawn settings, from raw data to the
last study. However often and wherever it is killed, the same command ends with the bytes of an
undisturbed one.

`python -m tests.campaigns.kills --seed 0 --count 200`; whole Snakemake jobs are killed in
tests/pipeline/test_snakemake.py
"""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from fedrepro.cli import main
from support.federation import ALGORITHMS
from support.settings import fig, write
from tests.campaigns import cases
from tests.campaigns.cases import Failed

STUDIES = (
    {"newcomers": {"clients": 2, "target": 0.3, "epochs": 3}},
    {"activations": {"every": 2}},
    {},
)


def settings(draw: random.Random) -> dict:
    """Of one run; what there is to break off: rounds with state on both sides, checkpoints,
    snapshots, studies."""
    study = draw.choice(STUDIES)
    training = {
        "rounds": draw.randint(4, 12),
        "partition": {
            "name": "permuted" if "newcomers" in study else draw.choice(("iid", "permuted")),
            "clients": 3,
        },
        "momentum": draw.choice((0.0, 0.9)),
        "augment": draw.choice(([], ["crop", "brightness"])),
        "proxy": {"share": 0.1},
        "evaluate_every": draw.choice((1, 2)),
        "series": {"A": {"name": draw.choice(ALGORITHMS)}, "Prox": None},
        "studies": study,
    }
    how = {"executor": draw.choice(("auto", "sequential")), "cores_per_run": draw.choice((1, 2))}
    return fig(**training) | how | {"checkpoint_seconds": draw.choice((0, 0.05, 30))}


def place(folder: Path, changes: dict) -> Path:
    folder.mkdir()
    write(folder, changes)
    return folder


def single(number: int, draw: random.Random) -> str:
    """A run that is killed one to four times."""
    changes = settings(draw)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = (place(Path(folder) / name, changes) for name in ("whole", "killed"))
        began = time.monotonic()
        if (ended := cases.command(whole, "train")).code:
            raise Failed(f"the undisturbed run: {changes}\n{ended.text[-2000:]}")
        lasts = time.monotonic() - began
        kills = sum(broken(killed, draw, lasts) for _ in range(draw.randint(1, 4)))
        if (ended := cases.command(killed, "train")).code:
            raise Failed(f"the same command: {changes}\n{ended.text[-2000:]}")
        if other := cases.different(
            *(cases.contents(place / "data", place / "results") for place in (whole, killed))
        ):
            raise Failed(f"after {kills} kills other bytes: {other}: {changes}")
    return f"same bytes after {kills} kills"


def broken(folder: Path, draw: random.Random, lasts: float) -> bool:
    """Whether `train` was killed before it was over; a termination must be reported without a
    traceback."""
    how = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    log = folder / "output"
    child = cases.apart(folder, log, lambda: main.main(["train"]))
    if cases.waited(child, draw.uniform(0, lasts)) is not None:
        return False
    os.kill(child, how)
    code = cases.waited(child, 120)
    # missing if it was killed at once
    output = log.read_text(encoding="utf-8") if log.exists() else ""
    if "Traceback" in output or code not in (0, 130, -how):
        raise Failed(f"exit code {code} after {how.name}:\n{output[-3000:]}")
    return code != 0


if __name__ == "__main__":
    sys.exit(cases.run_campaign("kills", lambda: single, cases.parse_options("kills", 200)))
