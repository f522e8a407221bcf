"""Snakemake in a process of its own that need not load it: a server has loaded it and torch, and each start is a fork of that.
The package, which the tests are about, each start loads from its own folder."""

import multiprocessing
import os
import runpy
import sys
import tempfile
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["snakemake.cli", "torch"])


def snakemake(folder: Path, environment: dict[str, str], *arguments: str, seconds: float = 900) -> tuple[int | None, str]:
    """`python -m snakemake` in this folder: how it ended (None: not within these seconds), and what it printed."""
    with tempfile.TemporaryDirectory() as aside:
        told = Path(aside) / "told"
        process = SERVER.Process(target=_start, args=(folder, environment, told, arguments))
        process.start()
        process.join(seconds)
        code = process.exitcode
        process.kill()
        process.join()
        return code, told.read_text(encoding="utf-8")


def _start(folder: Path, environment: dict[str, str], told: Path, arguments: tuple[str, ...]) -> None:
    with told.open("w", encoding="utf-8") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    assert not any(name.startswith("fedrepro") for name in sys.modules), "the package was loaded before"
    sys.argv = ["snakemake", *arguments]
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
