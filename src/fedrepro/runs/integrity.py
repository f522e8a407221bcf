"""Whether the tables that runs and studies left are what they wrote, before a number of them is shown.

What is written today comes with a digest: `metrics` in a run's summary.json, `table` in a study's note. Results of earlier code
have none; there the rows have to be one for each round, in range, and to end where the summary says. Of a kept run, each file
that is read has to be as `results/kept/SHA256SUMS` lists it, whose lines `sha256sum --check` understands.
"""

import csv
import functools
import io
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import parsed, read_file, text_digest
from fedrepro.core.metrics import MEASURES

SUMS = "SHA256SUMS"  # in results/kept
LINE = re.compile(r"(?P<sum>[0-9a-f]{64})  (?P<name>\S.*)")
CONFLICT = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")  # how lines of git's begin where two branches differ
ASKED = ("config", "data", "code")
TOLD = ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code")
Rows = list[dict[str, str]]


def is_kept(folder: Path) -> bool:
    """Whether a run's folder is on the shelf of committed results."""
    return folder.parent.parent.name == "kept"


def sums(kept: Path) -> Mapping[str, str]:
    """The sha256 of each kept file, by its name below `results/kept`. Raises UserError for a line that is none of that."""
    path = kept / SUMS
    try:
        version = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return _sums(path, version.st_ino, version.st_mtime_ns, version.st_size)


@functools.lru_cache(maxsize=4)
def _sums(path: Path, *version: int) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(sum_lines(read_file(path)), 1):
        where = f"{path}: line {number}"
        if line.startswith(CONFLICT):
            raise UserError(f"{where}: a conflict that git left; `fedrepro keep` takes the lines of both sides")
        name, sum = parse_sum(line, where)
        if found.setdefault(name, sum) != sum:
            raise UserError(f"{where}: another sha256 of {name}; `fedrepro keep` leaves that of the file that is there")
    return found


def parse_sum(line: str, where: str) -> tuple[str, str]:
    """A file's name and its sha256. Raises UserError for any other line."""
    if (match := LINE.fullmatch(line)) is None:
        raise UserError(f"{where}: not a sha256 and the name of a file; git restore brings back what was committed")
    return match["name"], match["sum"]


def sum_lines(content: bytes) -> list[str]:
    """The lines of a SHA256SUMS, without their ends."""
    return content.decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\n").split("\n") if content else []


def written_sums(sums: Mapping[str, str]) -> str:
    """As SHA256SUMS holds them: sorted, so that two branches that keep other runs change other lines."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))


def check_kept(folder: Path) -> None:
    """Raises UserError where a paper's kept runs lack a file that SHA256SUMS lists."""
    kept = folder.parent
    lost = [name for name in sums(kept) if name.startswith(f"{folder.name}/") and not os.path.exists(kept / name)]
    if lost:
        more = f" (nor are {len(lost) - 1} more)" if len(lost) > 1 else ""
        restored = kept / lost[0] if len(lost) == 1 else folder
        told = f"git restore {restored} brings back what was committed"
        raise UserError(f"{kept / lost[0]}: listed in {kept / SUMS}, but not there{more}; {told}")


def read_result(path: Path, *keys: str, told: str | None = None) -> dict[str, Any]:
    """A small file of a run or a study, with these keys. Raises UserError where it is damaged, not there, or not what was kept;
    `told` says what to do then."""
    told = told or advice(path.parent)
    return parsed(_content(path, told), path, *keys, advice=told)


def environment(folder: Path, *keys: str) -> dict[str, Any]:
    """What a run says of where it was trained, these keys and the commit at least."""
    path = folder / "environment.json"
    found = read_result(path, *dict.fromkeys(("commit", *keys)))
    hold_commit(found["commit"], path, advice(folder))
    return found


def hold_commit(name: Any, path: Path, told: str) -> None:
    """Raises UserError where what a file calls a commit cannot be one: it may come from elsewhere, and is given to git."""
    if not provenance.is_commit(name):
        raise UserError(f"{path}: commit: {name!r} names no commit; {told}")


def advice(folder: Path, table: Path | None = None) -> str:
    """What to do where a run's folder, or the table of a study in it, is damaged."""
    if is_kept(folder):
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
    found = read_result(path, *ASKED, "dataset")
    if not folder.name.endswith(key(found)):
        raise UserError(f"{path}: not the settings that its folder is named after; {advice(folder)}")
    return found


def summary(folder: Path) -> dict[str, Any]:
    """What a finished run says of its end. Raises UserError where it is not over, or the file is damaged, or another run's."""
    path = folder / "summary.json"
    if not os.path.lexists(path) and not is_kept(folder):
        raise UserError(f"{folder}: not finished; train it first")
    found = read_result(path, *TOLD)
    _own(found, path, advice(folder))
    trained = settings(folder)
    if other := [key for key in ("data", "code") if found[key] != trained[key]]:
        raise UserError(f"{path}: {' and '.join(other)}: not as in config.json; {advice(folder)}")
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
    if text_digest(content) != told["metrics"]:
        raise UserError(f"{path}: changed since the run wrote it; {advice(folder)}")
    return _rows(content, path, advice(folder))


def check_rows(folder: Path) -> None:
    """Raise UserError if a kept run's metrics.csv is not the one that was kept. Its rows are not parsed."""
    _content(folder / "metrics.csv", advice(folder))


def table(path: Path) -> Rows:
    """The rows of a finished study's table, likewise."""
    again = advice(path.parent, path)
    content = _content(path, again)
    note = read_result(path.with_suffix(".json"), told=again)
    _own(note, path.with_suffix(".json"), again)
    if note.get("table", found := text_digest(content)) != found:
        raise UserError(f"{path}: changed since it was written; {again}")
    return _rows(content, path, again)


def _content(path: Path, told: str) -> bytes:
    try:
        content = read_file(path, told)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {told}") from None
    if is_kept(path.parent):
        _hold(path, content, told)
    return content


def _hold(path: Path, content: bytes, told: str) -> None:
    """Raises UserError where a kept file is not the one that is listed."""
    kept = path.parents[2]
    listed = sums(kept).get("/".join(path.parts[-3:]))
    if listed is None:
        raise UserError(
            f"{path}: not listed in {kept / SUMS}; after a merge bring back the lines of both branches, or delete {path.parent}"
        )
    if text_digest(content) != listed:
        raise UserError(f"{path}: changed since it was kept; {told}")


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
