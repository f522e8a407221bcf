"""A list of runs as a file, for a machine with only `src/` and the data: `plan --export` writes it,
`train --runs` reads it."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedrepro.config.params import RunConfig
from fedrepro.config.types import parse
from fedrepro.core.errors import UserError, error_prefix
from fedrepro.core.files import read_records
from fedrepro.experiments.resolve import resolve
from fedrepro.experiments.study_plan import StudyRun, find_study
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, code_digest, run_id

EXPORT = "write it with: fedrepro plan --export"


def write(runs: Iterable[Run], study_runs: Iterable[StudyRun], path: Path) -> None:
    """Write unfinished runs, and studies with the runs that they examine, finished or not."""
    studies: dict[Run, dict[str, list[Any]]] = {}
    for study_run in study_runs:
        by_name = studies.setdefault(study_run.run, {})
        by_name.setdefault(study_run.study.name, []).append(
            study_run.study.settings.model_dump(mode="json")
        )
    records = [
        run.config_record()
        | {"folder": str(run.folder)}
        | ({"studies": studies[run]} if run in studies else {})
        for run in {run.folder: run for run in (*runs, *studies)}.values()
        if run in studies or not run.summary.exists()
    ]
    try:
        path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: Path, paths: Paths) -> dict[Run, list[StudyRun]]:
    """Read the runs and their studies that `write` wrote. Raises UserError if the runs were planned
    with other code, or if a folder is not named after its run, as with changed settings or data."""
    if not path.exists():
        raise UserError(f"{path}: cannot be read: no such file; {EXPORT}")
    listed: dict[Run, list[StudyRun]] = {}
    for record in read_records(path, "config", "data", "code", "folder", advice=EXPORT):
        with error_prefix(str(path)):
            config = resolve(parse(RunConfig, record["config"], "a run"))
        data, code, folder = (str(record[key]) for key in ("data", "code", "folder"))
        if code != code_digest(config):
            raise UserError(
                f"{path}: planned with other code than this machine has; copy src/ and export again"
            )
        paper, name = ("", "", *folder.split("/"))[-2:]
        if not re.fullmatch(r"[a-z0-9_]+", paper) or name != run_id(config, data):
            raise UserError(f"{path}: folder {folder!r} is not that of its run; {EXPORT}")
        run, by_name = Run(paths.runs(paper) / name, config, data, code), record.get("studies", {})
        if not isinstance(by_name, dict) or not all(
            isinstance(every, list) for every in by_name.values()
        ):
            raise UserError(
                f"{path}: {run.id}: studies: expected name -> list of settings; {EXPORT}"
            )
        found = [
            find_study(run, name, values, paths, paper)
            for name, every in by_name.items()
            for values in every
        ]
        listed[run] = [study_run for study_run in found if study_run is not None]
    return listed
