"""Runs as one file, for a machine that has only `src/` and the data: `plan --export` writes it, `train --runs` reads it."""

import json
from pathlib import Path
from typing import Any

from fedrepro.config import RunConfig, parse
from fedrepro.engine.run import Run
from fedrepro.errors import UserError
from fedrepro.experiments import Paths, code_digest


def write(runs: list[Run], path: Path, beside: dict[Path, dict[str, Any]] | None = None) -> None:
    """Unfinished runs, and those with work `beside` them (by folder)."""
    beside = beside or {}
    wanted = [run for run in runs if run.folder in beside or not run.summary.exists()]
    listed = [run.record() | {"folder": str(run.folder)} | beside.get(run.folder, {}) for run in wanted]
    try:
        path.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: Path, paths: Paths) -> list[Run]:
    """What `write` wrote. Raises UserError if the code here is not the code that the runs were planned with."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        listed = [(record["config"], record["data"], record["code"], Path(record["folder"]).parts[-2:]) for record in records]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; write it with: fedrepro plan --export") from None
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{path}: not a list of runs; write it with: fedrepro plan --export") from None
    runs = []
    for values, data, code, (paper, name) in listed:
        config = parse(RunConfig, values, str(path))
        if code != code_digest(config):
            raise UserError(f"{path}: planned with other code than this machine has; copy src/ and export again")
        runs.append(Run(paths.runs(paper) / name, config, data, code))
    return runs
