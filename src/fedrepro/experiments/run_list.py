"""Runs as one file, for a machine that has only `src/` and the data: `plan --export` writes it, `train --runs` reads it."""

import json
import re
from pathlib import Path
from typing import Any

from fedrepro.config.params import RunConfig
from fedrepro.config.types import parse
from fedrepro.core.errors import UserError, located
from fedrepro.core.files import is_whole, sealed
from fedrepro.experiments.resolve import resolve
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, code_digest, run_id


def write(runs: list[Run], path: Path, beside: dict[Path, dict[str, Any]] | None = None) -> None:
    """Unfinished runs, and those with work `beside` them (by folder)."""
    beside = beside or {}
    wanted = [run for run in runs if run.folder in beside or not run.summary.exists()]
    listed = [sealed(run.record() | {"folder": str(run.folder)} | beside.get(run.folder, {})) for run in wanted]
    try:
        path.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: Path, paths: Paths) -> list[Run]:
    """What `write` wrote. Raises UserError if the code here is not the code that the runs were planned with."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(records, list):
            raise ValueError("no list")
        listed = [(record["config"], *(str(record[key]) for key in ("data", "code", "folder"))) for record in records]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; write it with: fedrepro plan --export") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(f"{path}: not a list of runs; write it with: fedrepro plan --export") from None
    runs = []
    for values, data, code, folder in listed:
        config = _resolved(values, path)
        if code != code_digest(config):
            raise UserError(f"{path}: planned with other code than this machine has; copy src/ and export again")
        paper, name = ("", "", *folder.split("/"))[-2:]
        if not re.fullmatch(r"[a-z0-9_]+", paper) or name != run_id(config, data):
            raise UserError(f"{path}: folder {folder!r} is not that of its run; write it with: fedrepro plan --export")
        runs.append(Run(paths.runs(paper) / name, config, data, code))
    if not all(map(is_whole, records)):
        raise UserError(f"{path}: changed since it was written; write it with: fedrepro plan --export")
    return runs


def _resolved(values: Any, path: Path) -> RunConfig:
    with located(str(path)):
        return resolve(parse(RunConfig, values, "a run"))
