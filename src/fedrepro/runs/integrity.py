"""Checked reading of finished runs and studies: settings fit the run's name, rows their digest, JSON files their seal.

A run lies in a folder of its own, or is a committed one, whose folder only names it (`runs.kept`).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import parse_json, parse_rows, read_file, read_json, sha256
from fedrepro.runs import kept
from fedrepro.runs.kept import IDENTITY_FIELDS, RESULT_FIELDS, Record, Rows, is_kept, run_hash

ENVIRONMENT = ("commit", "device", "executor", "hardware", "torch")  # the part of it that reports show
Value = TypeVar("Value")


def repair_advice(folder: Path, table: Path | None = None) -> str:
    """Return what to do if a run's folder, or the table of a study in it, is damaged."""
    if is_kept(folder):
        return kept.RESTORE
    if table:
        return f"delete {table} and {table.with_suffix('.json').name} to repeat the study"
    return f"delete {folder} to train the run again"


def read_result(path: Path, *keys: str, advice: str | None = None) -> dict[str, Any]:
    """Read a small JSON file in a run's folder. Raises UserError if it is damaged, absent or lacks one of the keys.

    `advice` ends the error; by default it says how to repair the run.
    """
    advice = advice or repair_advice(path.parent)
    return parse_json(_read_existing(path, advice), path, *keys, advice=advice)


def check_commit(name: Any, path: Path, advice: str) -> None:
    """Raise UserError if the commit in a file cannot be one: the file may come from elsewhere, and git gets the name."""
    if not provenance.is_commit(name):
        raise UserError(f"{path}: commit: {name!r} names no commit; {advice}")


def load_config(folder: Path) -> Record:
    """Read a run's config.json. Raises UserError if it is damaged or does not fit the hash in the folder's name."""
    path = folder / "config.json"
    record = read_result(path, *IDENTITY_FIELDS, "dataset")
    if not folder.name.endswith(run_hash(record)):
        raise UserError(f"{path}: not the settings that its folder is named after; {repair_advice(folder)}")
    return record


def load_record(folder: Path) -> Record:
    """Read a finished run's settings, summary, timing and environment.

    Raises UserError if the run is not finished, is damaged or is not the one that its folder names.
    """
    if is_kept(folder):
        return _lookup(kept.load_runs(folder.parent), folder.name, folder.parent / kept.RUNS)
    path, advice = folder / "summary.json", repair_advice(folder)
    if not os.path.lexists(path):
        raise UserError(f"{folder}: not finished; train it first")
    summary, trained = read_result(path, *RESULT_FIELDS), load_config(folder)
    _check_run_name(summary, path, advice)
    if differing := [name for name in ("data", "code") if summary[name] != trained[name]]:
        raise UserError(f"{path}: {' and '.join(differing)}: not as in config.json; {advice}")
    environment = read_result(folder / "environment.json", *ENVIRONMENT)
    check_commit(environment["commit"], folder / "environment.json", advice)
    timing = read_json(folder / "timing.json", "rounds", "seconds", advice=advice) or {}
    timing = {"timed_rounds" if name == "rounds" else name: value for name, value in timing.items()}
    record = timing | trained | summary | {"run": folder.name, "environment": environment}
    kept.check_types(kept.Result, record, str(folder), advice)
    return record


def load_metrics(folder: Path) -> Rows:
    """Read a finished run's rows, cells as text, with the seconds of each round if they are known. Raises UserError if they are
    not the ones that the run wrote."""
    if is_kept(folder):
        return _lookup(kept.load_paper(folder.parent).metrics, (folder.name,), folder.parent / kept.METRICS)
    record, path, advice = load_record(folder), folder / "metrics.csv", repair_advice(folder)
    content = _read_existing(path, advice)
    if sha256(content) != record["metrics"]:
        raise UserError(f"{path}: changed since the run wrote it; {advice}")
    rows, seconds = parse_rows(content, path, advice), [None, *record.get("round_seconds", ())]
    if len(seconds) != len(rows):  # of earlier code
        return rows
    return [row | {kept.SECONDS: "" if cell is None else str(cell)} for row, cell in zip(rows, seconds, strict=True)]


def load_studies(folder: Path) -> dict[str, Record]:
    """Return the records of a run's finished studies, without their rows, by the stem of their files."""
    if is_kept(folder):
        return kept.load_runs(folder.parent)[folder.name]["studies"]
    records = {}
    for path in sorted(folder.glob("*-*.json")):
        records[path.stem] = read_result(path, "settings", "code", advice=repair_advice(folder, path.with_suffix(".csv")))
    return records


def load_study_rows(path: Path) -> Rows:
    """Read a finished study's rows by the path of its table. Raises UserError if they are not the ones that it wrote."""
    folder, advice = path.parent, repair_advice(path.parent, path)
    if is_kept(folder):
        return _lookup(kept.load_paper(folder.parent).studies, (folder.name, path.stem), folder.parent / kept.STUDIES)
    content = _read_existing(path, advice)
    record = read_result(path.with_suffix(".json"), "table", advice=advice)
    _check_run_name(record, path.with_suffix(".json"), advice)
    if record["table"] != sha256(content):
        raise UserError(f"{path}: changed since it was written; {advice}")
    return parse_rows(content, path, advice)


def _lookup(entries: Mapping[Any, Value], key: str | tuple[str, ...], path: Path) -> Value:
    if key not in entries:
        raise UserError(f"{path}: lacks {key if isinstance(key, str) else ' '.join(key)}; {kept.RESTORE}")
    return entries[key]


def _check_run_name(record: Record, path: Path, advice: str) -> None:
    """Raise UserError if a file names another run than its folder does."""
    if (run := record.get("run", path.parent.name)) != path.parent.name:
        raise UserError(f"{path}: of another run, {run}; {advice}")


def _read_existing(path: Path, advice: str) -> bytes:
    try:
        return read_file(path, advice)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {advice}") from None
