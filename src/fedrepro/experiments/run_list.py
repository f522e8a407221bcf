"""Runs as one file, for a machine that has only `src/` and the data: `plan --export` writes it, `train --runs` reads it."""

import json
import re
from pathlib import Path
from typing import Any

from fedrepro.config.params import RunConfig
from fedrepro.config.types import parse
from fedrepro.core.errors import UserError, error_prefix
from fedrepro.core.files import read_records
from fedrepro.experiments.resolve import resolve
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, code_digest, run_id

EXPORT = "write it with: fedrepro plan --export"


def write(runs: list[Run], path: Path, beside: dict[Path, dict[str, Any]] | None = None) -> None:
    """Write unfinished runs, and those with work `beside` them (by folder)."""
    beside = beside or {}
    wanted = [run for run in runs if run.folder in beside or not run.summary.exists()]
    listed = [run.config_record() | {"folder": str(run.folder)} | beside.get(run.folder, {}) for run in wanted]
    try:
        path.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: Path, paths: Paths) -> list[Run]:
    """Read what `write` wrote. Raises UserError where the code is not what the runs were planned with, and for a folder that is
    not named after its run, as one with other settings or data would be."""
    if not path.exists():
        raise UserError(f"{path}: cannot be read: no such file; {EXPORT}")
    runs = []
    for record in read_records(path, "config", "data", "code", "folder", advice=EXPORT):
        with error_prefix(str(path)):
            config = resolve(parse(RunConfig, record["config"], "a run"))
        data, code, folder = (str(record[key]) for key in ("data", "code", "folder"))
        if code != code_digest(config):
            raise UserError(f"{path}: planned with other code than this machine has; copy src/ and export again")
        paper, name = ("", "", *folder.split("/"))[-2:]
        if not re.fullmatch(r"[a-z0-9_]+", paper) or name != run_id(config, data):
            raise UserError(f"{path}: folder {folder!r} is not that of its run; {EXPORT}")
        runs.append(Run(paths.runs(paper) / name, config, data, code))
    return runs
