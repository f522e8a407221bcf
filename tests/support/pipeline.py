"""The whole pipeline on a tiny job, in a folder of its own, and Snakemake in a process of its own
that need not load it."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from support.checkout import ROOT, save

# A server has loaded Snakemake and torch, and each start is a fork of it. The package, which the
# tests are about, each start loads from its own folder: nothing here may import it.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["snakemake.cli", "torch"])

PAPER = "fedmmd"
PAPERS = Path("workflow/papers")
NEWCOMERS = {"clients": 2, "target": 0.1, "epochs": 2}
TINY = {
    "dataset": "digits",
    "train_images": 100,
    "test_images": 40,
    "rounds": 1,
    "model": {"width": 0.1},
}


def shrink(folder: Path, others: dict | None = None, **changes) -> None:
    """Settings with one small experiment of one paper, and `others`."""
    params = read(ROOT / "params.yaml")
    params |= {"device": "cpu", "papers": [PAPER]}  # cores are counted
    params["scales"]["quick"]["seeds"] = [0]
    save(folder / "params.yaml", params)
    small = {
        "dataset": "digits",
        "rounds": 2,
        "clients_per_round": 2,
        "partition": {"clients": 10},
        "model": {"width": 0.1},
    }
    scales = read(ROOT / PAPERS / PAPER / "scales.yaml") | {
        "quick": (others or {}) | {"fig4d": small | changes}
    }
    save(folder / PAPERS / PAPER / "scales.yaml", scales)


def read(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", *arguments]


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(folder / "src"), "FEDREPRO_COMMIT": "7e57ed0"}


def begun(folder: Path, *arguments: str) -> subprocess.Popen:
    """Snakemake in a process group of its own."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        command(*arguments), cwd=folder, env=environment(folder), start_new_session=True, **quiet
    )


def snakemake(
    folder: Path, environment: dict[str, str], *arguments: str, seconds: float = 900
) -> tuple[int | None, str]:
    """`python -m snakemake` in this folder: how it ended (None: not within these seconds), and what
    it printed."""
    with tempfile.TemporaryDirectory() as aside:
        output = Path(aside) / "output"
        process = SERVER.Process(target=_start, args=(folder, environment, output, arguments))
        process.start()
        process.join(seconds)
        code = process.exitcode
        process.kill()
        process.join()
        return code, output.read_text(encoding="utf-8")


def _start(
    folder: Path, environment: dict[str, str], output: Path, arguments: tuple[str, ...]
) -> None:
    with output.open("w", encoding="utf-8") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    assert not any(name.startswith("fedrepro") for name in sys.modules), (
        "the package was loaded before"
    )
    sys.argv = ["snakemake", *arguments]
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
