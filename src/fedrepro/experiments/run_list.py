"""A list of runs as a file, for a machine with only `src/` and the data: `plan --export` writes it, `train --runs` reads it."""

import json
import re
from collections.abc import Mapping
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


def write(runs: list[Run], path: Path, extra: Mapping[Path, dict[str, Any]] | None = None) -> None:
    """Write the unfinished runs, and those with `extra` keys (by run folder), which are written with them."""
    extra = extra or {}
    listed = [run for run in runs if run.folder in extra or not run.summary.exists()]
    records = [run.config_record() | {"folder": str(run.folder)} | extra.get(run.folder, {}) for run in listed]
    try:
        path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: Path, paths: Paths) -> list[Run]:
    """Read a list of runs that `write` wrote. Raises UserError if the runs were planned with other code, or if a folder is not
    named after its run, as with changed settings or data."""
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
