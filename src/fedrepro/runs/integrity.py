"""Read what finished runs and studies left, checked: settings fit the run's name, rows their digest, JSON files their seal.

A run lies in a folder of its own, or is a committed one, whose folder only names it (`runs.kept`).
"""

import os
from pathlib import Path
from typing import Any

from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import parse_json, parse_rows, read_file, read_json, sha256
from fedrepro.runs import kept
from fedrepro.runs.kept import IDENTITY_FIELDS, RESULT_FIELDS, Record, Rows, is_kept, run_hash

ENVIRONMENT = ("commit", "device", "executor", "hardware", "torch")  # what reports show of it


def repair_advice(folder: Path, table: Path | None = None) -> str:
    """What to do if a run's folder, or the table of a study in it, is damaged."""
    if is_kept(folder):
        return kept.RESTORE
    if table:
        return f"delete {table} and {table.with_suffix('.json').name} to make the study anew"
    return f"delete {folder} to train the run anew"


def read_result(path: Path, *keys: str, advice: str | None = None) -> dict[str, Any]:
    """A small file in a run's folder, with these keys. Raises UserError, which says `told`, if it is damaged or not there."""
    advice = advice or repair_advice(path.parent)
    return parse_json(_content(path, advice), path, *keys, advice=advice)


def check_commit(name: Any, path: Path, advice: str) -> None:
    """Raise UserError if what a file calls a commit cannot be one: it may come from elsewhere, and is given to git."""
    if not provenance.is_commit(name):
        raise UserError(f"{path}: commit: {name!r} names no commit; {advice}")


def load_config(folder: Path) -> Record:
    """What a run's config.json holds. Raises UserError if it is damaged, or not what the folder is named after."""
    path = folder / "config.json"
    found = read_result(path, *IDENTITY_FIELDS, "dataset")
    if not folder.name.endswith(run_hash(found)):
        raise UserError(f"{path}: not the settings that its folder is named after; {repair_advice(folder)}")
    return found


def load_record(folder: Path) -> Record:
    """All that a finished run says of itself but its rows. Raises UserError if it is not over, damaged or another run's."""
    if is_kept(folder):
        return _kept(kept.load_runs(folder.parent), folder.name, folder.parent / kept.RUNS)
    path = folder / "summary.json"
    if not os.path.lexists(path):
        raise UserError(f"{folder}: not finished; train it first")
    summary, trained = read_result(path, *RESULT_FIELDS), load_config(folder)
    _check_run(summary, path, repair_advice(folder))
    if other := [name for name in ("data", "code") if summary[name] != trained[name]]:
        raise UserError(f"{path}: {' and '.join(other)}: not as in config.json; {repair_advice(folder)}")
    environment = read_result(folder / "environment.json", *ENVIRONMENT)
    check_commit(environment["commit"], folder / "environment.json", repair_advice(folder))
    timing = read_json(folder / "timing.json", "rounds", "seconds", advice=repair_advice(folder)) or {}
    timing = {"timed_rounds" if name == "rounds" else name: value for name, value in timing.items()}
    return timing | trained | summary | {"run": folder.name, "environment": environment}


def load_metrics(folder: Path) -> Rows:
    """The rows of a finished run, cells as they are written. Raises UserError if they are others."""
    if is_kept(folder):
        return _kept(kept.load_paper(folder.parent).metrics, (folder.name,), folder.parent / kept.METRICS)
    told, path = load_record(folder), folder / "metrics.csv"
    content = _content(path, repair_advice(folder))
    if sha256(content) != told["metrics"]:
        raise UserError(f"{path}: changed since the run wrote it; {repair_advice(folder)}")
    return parse_rows(content, path, repair_advice(folder))


def load_studies(folder: Path) -> dict[str, Record]:
    """The finished studies of a run, by the name of their files: what each says of itself, but for its rows."""
    if is_kept(folder):
        return kept.load_runs(folder.parent)[folder.name]["studies"]
    notes = sorted(folder.glob("*-*.json"))
    return {
        note.stem: read_result(note, "settings", "code", advice=repair_advice(folder, note.with_suffix(".csv")))
        for note in notes
    }


def load_study_rows(path: Path) -> Rows:
    """The rows of a finished study, by the path of its table; likewise."""
    folder, again = path.parent, repair_advice(path.parent, path)
    if is_kept(folder):
        return _kept(kept.load_paper(folder.parent).studies, (folder.name, path.stem), folder.parent / kept.STUDIES)
    content = _content(path, again)
    note = read_result(path.with_suffix(".json"), "table", advice=again)
    _check_run(note, path.with_suffix(".json"), again)
    if note["table"] != sha256(content):
        raise UserError(f"{path}: changed since it was written; {again}")
    return parse_rows(content, path, again)


def _kept(found: Any, name: Any, path: Path) -> Any:
    if name not in found:
        raise UserError(f"{path}: lacks {name if isinstance(name, str) else ' '.join(name)}; {kept.RESTORE}")
    return found[name]


def _check_run(note: Record, path: Path, advice: str) -> None:
    """Raise UserError if a file names another run than the one whose folder it lies in."""
    if (run := note.get("run", path.parent.name)) != path.parent.name:
        raise UserError(f"{path}: of another run, {run}; {advice}")


def _content(path: Path, advice: str) -> bytes:
    try:
        return read_file(path, advice)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {advice}") from None
