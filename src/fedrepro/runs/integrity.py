"""Whether the tables that runs and studies left are what they wrote, before a number of them is shown.

What is written today comes with a digest: `metrics` in a run's summary.json, `table` in a study's note. Results of earlier code
have none; there the rows have to be one for each round, in range, and to end where the summary says.
"""

import csv
import io
import math
from pathlib import Path
from typing import Any

from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import digest, read_json, read_whole_json
from fedrepro.core.metrics import MEASURES

ASKED = ("config", "data", "code")
TOLD = ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code")
Rows = list[dict[str, str]]


def advice(folder: Path, table: Path | None = None) -> str:
    """What to do where a run's folder, or the table of a study in it, is damaged."""
    if folder.parent.parent.name == "kept":
        return f"git restore {folder} brings back what was committed"
    if table:
        return f"delete {table} and {table.with_suffix('.json').name} to make the study anew"
    return f"delete {folder} to train the run anew"


def key(record: dict[str, Any]) -> str:
    """What the name of a run's folder ends with: the hash of all that determines the result."""
    return provenance.digest({name: record[name] for name in ASKED})


def settings(folder: Path) -> dict[str, Any]:
    """What a run's config.json holds. Raises UserError where it is damaged, or not what the folder is named after."""
    path = folder / "config.json"
    found = read_whole_json(path, *ASKED, "dataset", advice=advice(folder))
    if not folder.name.endswith(key(found)):
        raise UserError(f"{path}: not the settings that its folder is named after; {advice(folder)}")
    return found


def summary(folder: Path) -> dict[str, Any]:
    """What a finished run says of its end. Raises UserError where it is not over, or the file is damaged."""
    found = read_json(folder / "summary.json", *TOLD, advice=advice(folder))
    if found is None:
        raise UserError(f"{folder}: not finished; train it first")
    _own(found, folder / "summary.json", advice(folder))
    return found


def _own(note: dict[str, Any], path: Path, told: str) -> None:
    """Raises UserError where a file names another run than the one whose folder it lies in."""
    if (run := note.get("run", path.parent.name)) != path.parent.name:
        raise UserError(f"{path}: of another run, {run}; {told}")


def metrics(folder: Path) -> Rows:
    """The rows of a finished run's metrics.csv, cells as they are written. Raises UserError where they are others."""
    told, path = summary(folder), folder / "metrics.csv"
    content = _content(path, advice(folder))
    if "metrics" not in told:
        rows = _rows(content, path, advice(folder))
        if reason := _wrong(rows, told):
            raise UserError(f"{path}: {reason}; {advice(folder)}")
        return rows
    if digest(content) != told["metrics"]:
        raise UserError(f"{path}: changed since the run wrote it; {advice(folder)}")
    return _rows(content, path, advice(folder))


def table(path: Path) -> Rows:
    """The rows of a finished study's table, likewise."""
    again = advice(path.parent, path)
    content = _content(path, again)
    note = read_whole_json(path.with_suffix(".json"), advice=again)
    _own(note, path.with_suffix(".json"), again)
    if note.get("table", found := digest(content)) != found:
        raise UserError(f"{path}: changed since it was written; {again}")
    return _rows(content, path, again)


def _content(path: Path, told: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: not there; {told}") from None


def _rows(content: bytes, path: Path, told: str) -> Rows:
    try:
        return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: damaged ({error}); {told}") from None


def _wrong(rows: Rows, told: dict[str, Any]) -> str | None:
    """Why rows cannot be those that a summary tells of."""
    if [row.get("round") for row in rows] != [str(number) for number in range(told["rounds"] + 1)]:
        return f"not one row for each of the rounds 0 to {told['rounds']}"
    for row in rows:
        if None in row or None in row.values():
            return f"round {row['round']}: not as many cells as columns"
        if reason := next((found for column, cell in row.items() if (found := _refused(column, cell, told))), None):
            return f"round {row['round']}: {reason}"
    final = told.get("final", {name: told[name] for name in MEASURES if name in told})  # the oldest tell it beside the rest
    for name, value in final.items():
        if [float(row[name]) for row in rows if row.get(name)][-1:] != [value]:
            return f"{name} does not end at the {value} of summary.json"
    for name in ("bytes_down", "bytes_up"):
        cells = [row.get(name) for row in rows]
        if any(cells) and sum(int(cell or 0) for cell in cells) != told[name]:
            return f"{name} does not add up to that of summary.json"
    return None


def _refused(column: str, cell: str, told: dict[str, Any]) -> str | None:
    if cell == "":
        return None
    try:
        value = int(cell) if column in ("round", "bytes_down", "bytes_up") else float(cell)
    except ValueError:
        return f"{column} is {cell!r}"
    if not math.isfinite(value) and told["status"] == "finished":
        return f"{column} is {cell}, though the run did not diverge"
    share = column in MEASURES and MEASURES[column].percent
    return f"{column} is {cell}, not from 0 to 1" if share and not 0 <= value <= 1 else None
