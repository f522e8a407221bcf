"""Records of finished runs: a sealed line of JSON each, which this module alone reads and writes.

    results/runs/<paper>/<run>/record.json          a run that was trained here; `begun.json` has
    its settings from the start results/runs/<paper>/<run>/<study>-<hash>.json  a study of that run
    results/kept/<paper>.jsonl                      a paper's committed runs with their studies, a
    line each

A line begins with its seal, the digest of the rest. A committed run has no folder: its path names a
line of the paper's file.
"""

import functools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from fedrepro.config.types import parse
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, read_file, sha256

KEPT = ".jsonl"  # ending of a paper's file of committed runs
# in a run's folder: settings, data, code, environment and times, also of an unfinished run
BEGUN = "begun.json"
RECORD = "record.json"  # exists exactly if a run is finished
IDENTITY_FIELDS = ("config", "data", "code")
SECONDS = "seconds"  # column with the seconds of a round, which differ when a run is trained again
# fields that differ when a run is trained again
TIMES = ("timed_rounds", "seconds", "core_seconds", "ended")
RUN_NAME = "[a-z0-9_-]+"  # also of a study: a name is a part of a path
LINE = re.compile(r'\{"seal": "(?P<seal>[0-9a-f]{64})", (?P<rest>.*)\n?')
RESTORE = "git restore results/kept brings back what was committed"
Record = dict[str, Any]
Cell = int | float | str | None
Columns = dict[str, list[Cell]]
Rows = list[dict[str, str]]
Name = Annotated[str, Field(pattern=f"^{RUN_NAME}$")]


class Environment(BaseModel):
    """What is read of the commit, versions and hardware of a study; git gets the commit."""

    commit: Annotated[str, Field(pattern=f"^({provenance.COMMIT.pattern})$")]


class RunEnvironment(Environment):
    """What is read of the commit, versions and hardware of a run."""

    device: str
    executor: str
    hardware: str
    torch: str


class Begun(BaseModel):
    """What is read of a run that has begun."""

    config: dict[str, Any]
    dataset: str
    data: str
    code: str
    environment: Environment
    round_seconds: list[float | None]


class StudyRecord(BaseModel):
    """What is read of a study's record."""

    settings: dict[str, Any]
    code: str
    environment: Environment
    columns: Columns


class RunRecord(BaseModel):
    """What is read of a finished run's record, which also has other fields."""

    run: Name
    config: dict[str, Any]
    dataset: str
    data: str
    code: str
    status: str
    metrics: str
    rounds: int
    weights: int
    bytes_down: int
    bytes_up: int
    environment: RunEnvironment
    columns: Columns
    studies: dict[Name, StudyRecord] = {}


def is_kept(folder: Path) -> bool:
    """Return whether a run is a committed one. Its folder, which does not exist, then names a line
    of a paper's file."""
    return folder.parent.suffix == KEPT


def run_hash(record: Record) -> str:
    """Return the hash of all that determines a run's result, with which the run's name ends."""
    return provenance.value_digest({name: record[name] for name in IDENTITY_FIELDS})


def begun(place: Path) -> dict[Path, Record]:
    """Return the settings of a paper's runs, finished or not, by folder. `place` is a folder or a
    file of committed runs.

    Raises UserError if one is damaged or does not fit the hash in its name.
    """
    if place.suffix == KEPT:
        return {place / name: record for name, record in load_kept(place).items()}
    found = {path.parent: load_begun(path.parent) for path in sorted(place.glob(f"*/{BEGUN}"))}
    for folder, record in found.items():
        if not folder.name.endswith(run_hash(record)):
            raise UserError(
                f"{folder / BEGUN}: not the settings that its folder is named after; "
                f"{_retrain(folder)}"
            )
    return found


def load_begun(folder: Path) -> Record:
    """Read what a run began with. Raises UserError if it is damaged or not there."""
    return _read(folder / BEGUN, Begun, folder.name, _retrain(folder))


def load(folder: Path) -> Record:
    """Read a finished run's record. Raises UserError if the run is not finished, or the record is
    damaged or another run's."""
    if is_kept(folder):
        runs = load_kept(folder.parent)
        if folder.name not in runs:
            raise UserError(f"{folder.parent}: lacks {folder.name}; {RESTORE}")
        return runs[folder.name]
    if not os.path.lexists(folder / RECORD):
        raise UserError(f"{folder}: not finished; train it first")
    return _read(folder / RECORD, RunRecord, folder.name, _retrain(folder))


def load_studies(folder: Path) -> dict[str, Record]:
    """Return the records of a run's finished studies by the stem of their files."""
    if is_kept(folder):
        return load(folder)["studies"]
    return {path.stem: load_study(path) for path in sorted(folder.glob("*-*.json"))}


def load_study(path: Path) -> Record:
    """Read a finished study's record. Raises UserError if it is damaged or of another run."""
    if is_kept(path.parent):
        studies = load(path.parent)["studies"]
        if path.stem not in studies:
            raise UserError(
                f"{path.parent.parent}: {path.parent.name} lacks {path.stem}; {RESTORE}"
            )
        return studies[path.stem]
    return _read(path, StudyRecord, path.parent.name, f"delete {path} to repeat the study")


def rows(columns: Columns) -> Rows:
    """Return the rows of a table by columns, cells as text; a value that was not measured is
    empty."""
    texts = [["" if cell is None else str(cell) for cell in column] for column in columns.values()]
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*texts, strict=True)]


def columns(names: Iterable[str], table: Iterable[Iterable[Any]]) -> Columns:
    """Return a table by columns. Args: table: cells by row, as numbers, as texts or None."""
    cells = [[_cell("" if cell is None else str(cell)) for cell in row] for row in table]
    return {name: [row[place] for row in cells] for place, name in enumerate(names)}


def _cell(text: str) -> Cell:
    """Return the number whose text this is, otherwise the text, or None if it is empty."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and math.isfinite(value):
            return value
    return text or None


def digest(table: Columns) -> str:
    """Return the digest of a run's numbers, without its times, as of a CSV file."""
    measured = {name: column for name, column in table.items() if name != SECONDS}
    lines = [measured, *(row.values() for row in rows(measured))]
    return sha256("".join(",".join(line) + "\n" for line in lines))


def write(path: Path, record: Record) -> None:
    """Write a sealed record. A reader sees either the old or the new file."""
    save(path, [record])


def save(path: Path, records: Iterable[Record]) -> None:
    """Write sealed records as the lines of a file, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text("".join(map(_line, records)), encoding="utf-8", newline="\n")


def load_kept(path: Path) -> Mapping[str, Record]:
    """Return a paper's committed runs by name. Raises UserError, naming the line, for one that is
    not as it was kept."""
    return _cached_kept(path, version(path)) if os.path.lexists(path) else {}


def version(path: Path) -> tuple[int, ...]:
    """Return what changes when a file of committed runs is written."""
    state = path.stat()
    return state.st_ino, state.st_mtime_ns, state.st_size


@functools.lru_cache(maxsize=16)
def _cached_kept(path: Path, version: tuple) -> dict[str, Record]:
    runs: dict[str, Record] = {}
    for number, line in enumerate(read_file(path, RESTORE).splitlines(keepends=True), 1):
        where = f"{path}: line {number}"
        record = _parse(line, RunRecord, where, RESTORE)
        record.setdefault("studies", {})
        if (other := runs.get(record["run"])) and other["metrics"] != record["metrics"]:
            raise UserError(
                f"{where}: differs from another line of {record['run']}; leave one of them"
            )
        if other:  # two branches kept the same run, perhaps with other studies
            record = other | {"studies": record["studies"] | other["studies"]}
        runs[record["run"]] = record
    return runs


def _line(record: Record) -> str:
    text = json.dumps(record)[1:]
    return f'{{"seal": "{sha256(text)}", {text}\n'


def _read(path: Path, model: type[BaseModel], run: str, advice: str) -> Record:
    try:
        record = _parse(read_file(path, advice), model, str(path), advice)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {advice}") from None
    if record.get("run", run) != run:
        raise UserError(f"{path}: of another run, {record['run']}; {advice}")
    return record


def _retrain(folder: Path) -> str:
    return f"delete {folder} to train the run again"


def _parse(line: bytes, model: type[BaseModel], where: str, advice: str) -> Record:
    """Return the record in a sealed line. Raises UserError if it changed, lacks a field or has one
    of another type."""
    try:
        match = LINE.fullmatch(line.decode("utf-8"))
        if match is None or sha256(match["rest"]) != match["seal"]:
            raise UserError(f"{where}: changed since it was written; {advice}")
        record = json.loads("{" + match["rest"])
        parse(model, record, where)
    except (ValueError, RecursionError):
        raise UserError(f"{where}: damaged, no record in JSON; {advice}") from None
    except UserError as error:
        raise UserError(
            str(error) if str(error).endswith(advice) else f"{error}; {advice}"
        ) from None
    for table in (record, *record.get("studies", {}).values()):
        if len({len(column) for column in table.get("columns", {}).values()}) > 1:
            raise UserError(f"{where}: columns: not of one length; {advice}")
    if model is RunRecord and not record["run"].endswith(run_hash(record)):
        raise UserError(f"{where}: not the settings that {record['run']} is named after; {advice}")
    return record
