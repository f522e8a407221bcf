"""Kills at random times, and terminations: `fedrepro train` on drawn settings, from raw data to the last study; with `--jobs`,
whole Snakemake jobs. However often and wherever they are killed, the same command ends with the bytes of an undisturbed one.

`python -m tests.campaigns.kills --seed 0 --count 200`; `python -m tests.campaigns.kills --jobs --seed 0 --count 5`
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from fedrepro.cli import main
from support import pipeline
from support.federation import ALGORITHMS
from support.settings import fig, write
from tests.campaigns import cases
from tests.campaigns.cases import Failed

MADE = shutil.ignore_patterns("results", "reports", ".snakemake", "logs", "mlflow.db", "mlartifacts")
STUDIES = (
    {"newcomers": {"clients": 2, "target": 0.3, "epochs": 3}},
    {"activations": {"every": 2}},
    {},
)


def settings(draw: random.Random) -> dict:
    """Of one run; what there is to break off: rounds with state on both sides, checkpoints, snapshots, studies."""
    study = draw.choice(STUDIES)
    training = {
        "rounds": draw.randint(4, 12),
        "partition": {"name": "permuted" if "newcomers" in study else draw.choice(("iid", "permuted")), "clients": 3},
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
        if other := cases.different(*(cases.contents(place / "data", place / "results") for place in (whole, killed))):
            raise Failed(f"after {kills} kills other bytes: {other}: {changes}")
    return f"same bytes after {kills} kills"


def broken(folder: Path, draw: random.Random, lasts: float) -> bool:
    """Whether `train` was killed before it was over; a termination must be reported without a traceback."""
    how = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    log = folder / "output"
    child = cases.apart(folder, log, lambda: main.main(["train"]))
    if cases.waited(child, draw.uniform(0, lasts)) is not None:
        return False
    os.kill(child, how)
    code = cases.waited(child, 120)
    output = log.read_text(encoding="utf-8") if log.exists() else ""  # missing if it was killed at once
    if "Traceback" in output or code not in (0, 130, -how):
        raise Failed(f"exit code {code} after {how.name}:\n{output[-3000:]}")
    return code != 0


def project(folder: Path) -> Path:
    """A job that does all that the quick one does, on two experiments: runs of one seed and of two, new clients, a paper."""
    folder.mkdir()
    for name in ("src", "workflow", "profiles"):
        shutil.copytree(pipeline.ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(pipeline.ROOT / "Snakefile", folder)
    others = {"fig5c": pipeline.TINY | {"seeds": [0], "studies": {"newcomers": pipeline.NEWCOMERS}}}
    pipeline.shrink(folder, others, rounds=20)
    path = folder / "params.yaml"
    params = yaml.safe_load(path.read_text(encoding="utf-8")) | {"checkpoint_seconds": 0}
    params["scales"]["quick"]["seeds"] = [0, 1]
    path.write_text(yaml.safe_dump(params), encoding="utf-8")
    return folder


def called(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        pipeline.command(*arguments), cwd=folder, env=pipeline.environment(folder), capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        raise Failed(f"{' '.join(arguments)}: exit code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout + done.stderr


def made(folder: Path) -> dict[str, bytes]:
    """All that a job leaves but what tells the time: notebooks as they were run, and the tracking of runs."""
    found = cases.contents(folder / "data", folder / "results", folder / "reports")
    return {name: content for name, content in found.items() if "notebooks/" not in name and "mlflow" not in name}


class Jobs:
    """Cases that share the undisturbed job that they are held against."""

    def __init__(self, folder: Path) -> None:
        self.folder, whole = folder, project(folder / "whole")
        began = time.monotonic()
        called(whole, "--cores", "2")
        self.lasts, self.made = time.monotonic() - began, made(whole)
        cases.say(f"the undisturbed job took {self.lasts:.0f} s")

    def __call__(self, number: int, draw: random.Random) -> str:
        folder = shutil.copytree(self.folder / "whole", self.folder / f"killed{number}", ignore=MADE)
        shutil.rmtree(folder / "data")
        kills = 0
        for _ in range(draw.randint(2, 6)):
            process = pipeline.begun(folder, "--cores", "2")
            try:
                process.wait(draw.uniform(0, (0.5 if kills == 0 else 1) * self.lasts))  # the first meets most jobs
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
            called(folder, "--unlock")
        called(folder, "--cores", "2")
        if "Nothing to be done" not in (again := called(folder, "--cores", "2")):
            raise Failed(f"after {kills} kills something is left to do:\n{again[-3000:]}")
        if other := cases.different(self.made, made(folder)):
            raise Failed(f"after {kills} kills other bytes: {other}")
        shutil.rmtree(folder)
        return f"same bytes after {kills} kills"


if __name__ == "__main__":
    options = cases.parse_options("kills", 200, jobs="whole Snakemake jobs instead of single runs")
    if not options.jobs:
        sys.exit(cases.run_campaign("kills", lambda: single, options))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(cases.run_campaign("kills --jobs", lambda: Jobs(Path(folder)), options))
