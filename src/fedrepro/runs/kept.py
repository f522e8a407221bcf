"""The committed results of finished runs, below `results/kept`.

    <paper>/runs.jsonl   one line for each run: settings, data, code, outcome, time, and its studies without their rows
    <paper>/metrics.csv  one row for each run and round
    <paper>/studies.csv  the rows of the studies
    environments.json    commit, versions and hardware of runs and studies, by the id that their lines name
    SHA256SUMS           checksums of the files above, as `sha256sum --check` reads them

All files are sorted. A process reads each file once and checks it against SHA256SUMS.
"""

import csv
import functools
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from fedrepro.config.types import NAME, parse
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import (
    atomic_write,
    check_no_links,
    read_file,
    remove_stale_parts_below,
    sha256,
    stale_parts,
    temporary_path,
)

RUNS, METRICS, STUDIES = "runs.jsonl", "metrics.csv", "studies.csv"  # in a paper's folder
ENVIRONMENTS, SUMS = "environments.json", "SHA256SUMS"
NAMES = rf"{ENVIRONMENTS}|{NAME}/({RUNS}|{METRICS}|{STUDIES})"  # of the files, which lie nowhere else
SUM_LINE = re.compile(rf"(?P<sum>[0-9a-f]{{64}})  (?P<name>{NAMES})")
IDENTITY_FIELDS = ("config", "data", "code")
RESULT_FIELDS = ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code", "metrics")
SECONDS = "seconds"  # column with the seconds of a round, which no checksum covers
RUN_NAME = "[a-z0-9_-]+"  # also of a study: a name is a part of a path
RESTORE = "git restore results/kept brings back what was committed"
Record = dict[str, Any]
ENVIRONMENT = TypeAdapter(dict[str, Record])
Rows = list[dict[str, str]]
Group = tuple[str, ...]  # (run,) or (run, study)
NumberedEntry = tuple[int, tuple, Any]  # line number, key, value


class Result(BaseModel):
    """The types of what is read of a finished run's record, which also has other fields."""

    run: Annotated[str, Field(pattern=f"^{RUN_NAME}$")]
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
    round_seconds: list[float | None] = []


class KeptStudy(BaseModel):
    """The types of what is read of a study's record in `runs.jsonl`."""

    columns: list[str]
    rows: int
    table: str
    environment: str


class KeptResult(Result):
    """The types of what is read of a line of `runs.jsonl`."""

    columns: list[str]
    environment: str
    studies: dict[Annotated[str, Field(pattern=f"^{RUN_NAME}$")], KeptStudy]


@dataclass(frozen=True)
class KeptPaper:
    """A paper's kept runs: their records by name, and the rows of runs and of studies by group."""

    runs: dict[str, Record] = field(default_factory=dict)
    metrics: dict[Group, Rows] = field(default_factory=dict)
    studies: dict[Group, Rows] = field(default_factory=dict)

    def add(self, record: Record, rows: Rows) -> None:
        columns = [column for column in rows[0] if column != SECONDS]
        record = {name: value for name, value in record.items() if name != "round_seconds"}  # which are in the rows
        self.runs[record["run"]] = {"studies": {}} | record | {"columns": columns}
        self.metrics[record["run"],] = rows

    def add_study(self, run: str, name: str, note: Record, rows: Rows, columns: list[str] | None = None) -> None:
        """Add a study. It has the first row's columns, unless `columns` are given: that of a diverged run may have no rows."""
        studies = self.runs[run]["studies"] | {name: note | {"columns": columns or list(rows[0]), "rows": len(rows)}}
        self.runs[run] = self.runs[run] | {"studies": studies}
        self.studies[run, name] = rows

    def remove(self, run: str) -> None:
        del self.runs[run], self.metrics[run,]
        for group in [group for group in self.studies if group[0] == run]:
            del self.studies[group]


def is_kept(folder: Path) -> bool:
    """Return whether a run is a committed one. Its folder, which does not exist, then has a name below `results/kept`."""
    return folder.parent.parent.name == "kept"


def run_hash(record: Record) -> str:
    """Return the hash of all that determines a run's result, with which the run's name ends."""
    return provenance.value_digest({name: record[name] for name in IDENTITY_FIELDS})


def check_types(model: type[BaseModel], record: Any, where: str, advice: str) -> None:
    """Raise UserError if a record, which may come from elsewhere, lacks a field or has one of another type."""
    try:
        parse(model, record, where)
    except UserError as error:
        raise UserError(f"{error}; {advice}") from None


def load_runs(folder: Path) -> Mapping[str, Record]:
    """Return the records of a paper's kept runs by name. Raises UserError if any of its files changed since it was kept."""
    return _cached_runs(folder.parent, folder.name, _version(folder))


def load_paper(folder: Path) -> KeptPaper:
    """Return a paper's kept runs with all rows. Raises UserError as `load_runs` does."""
    return _cached_paper(folder.parent, folder.name, _version(folder))


def load_all(kept: Path) -> dict[str, KeptPaper]:
    """Return all papers by name, as copies that the caller may change and `save`."""
    papers = {name: load_paper(kept / name) for name in _paper_names(checksums(kept))}
    return {name: KeptPaper(dict(paper.runs), dict(paper.metrics), dict(paper.studies)) for name, paper in papers.items()}


def save(kept: Path, papers: Mapping[str, KeptPaper]) -> None:
    """Replace all files below `kept`. If the process is killed in between, `recover` completes or undoes the change."""
    environments: dict[str, Record] = {}
    texts = {}
    for name, paper in papers.items():
        lines = [_run_line(paper.runs[run], environments) for run in sorted(paper.runs)]
        texts[f"{name}/{RUNS}"] = "".join(lines)
        texts[f"{name}/{METRICS}"] = _groups_to_csv(("run", "round"), paper.metrics)
        if paper.studies or (kept / name / STUDIES).exists():
            texts[f"{name}/{STUDIES}"] = _groups_to_csv(("run", "study", "row"), paper.studies)
    lines = [f"{json.dumps(id)}: {json.dumps(environments[id], sort_keys=True)}" for id in sorted(environments)]
    texts[ENVIRONMENTS] = "{\n" + ",\n".join(lines) + "\n}\n"
    for name, text in texts.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        temporary_path(kept / name).write_text(text, encoding="utf-8", newline="\n")
    with atomic_write(temporary_path(kept / SUMS)) as path:  # written last: if it exists, so do all other parts
        path.write_text("".join(f"{sha256(texts[name])}  {name}\n" for name in sorted(texts)), encoding="utf-8", newline="\n")
    _install_parts(kept, temporary_path(kept / SUMS))


def recover(kept: Path) -> None:
    """Complete or undo a `save` that was killed, and merge the runs of two branches whose lines git has united."""
    if not os.path.lexists(kept):
        return
    check_no_links(kept)
    for sums in stale_parts(kept / SUMS):
        _install_parts(kept, sums)
    remove_stale_parts_below(kept)
    listed = [name for name, _ in _read_checksums(kept / SUMS)]
    if len(set(listed)) < len(listed):
        save(kept, {name: _read_paper(kept, name, merging=True) for name in _paper_names(listed)})


def checksums(kept: Path) -> dict[str, str]:
    """Return the sha256 of each file by its name below `kept`. Raises UserError if a file has two different ones."""
    sums: dict[str, str] = {}
    for number, (name, sum) in enumerate(_read_checksums(kept / SUMS), 1):
        if sums.setdefault(name, sum) != sum:
            raise UserError(f"{kept / SUMS}: line {number}: two branches kept results in {name}; `fedrepro keep` merges them")
    return sums


def _read_checksums(path: Path) -> list[tuple[str, str]]:
    """Return the names and sums in a SHA256SUMS file, in its order."""
    text = _decode(path, read_file(path)) if os.path.lexists(path) else ""
    sums = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if (match := SUM_LINE.fullmatch(line)) is None:
            raise UserError(f"{path}: line {number}: not a sha256 and the name of a file; {RESTORE}")
        sums.append((match["name"], match["sum"]))
    return sums


def _paper_names(names: Iterable[str]) -> list[str]:
    return sorted({name.partition("/")[0] for name in names if "/" in name})


def _install_parts(kept: Path, sums: Path) -> None:
    """Move the temporary files that a new SHA256SUMS lists to their final names, then `sums`; do nothing if one is missing."""
    sources = {}
    for name, sum in _read_checksums(sums):
        parts = [path for path in (temporary_path(kept / name), *stale_parts(kept / name), kept / name) if path.exists()]
        matching = [path for path in parts if sha256(read_file(path, RESTORE)) == sum]
        if not matching:
            return
        sources[kept / name] = matching[0]
    for path, source in (sources | {kept / SUMS: sums}).items():
        source.replace(path)


# reading


def _version(folder: Path) -> tuple:
    """Return a cache key that changes with the files of a paper."""
    paths = (folder.parent / SUMS, folder.parent / ENVIRONMENTS, *(folder / name for name in (RUNS, METRICS, STUDIES)))
    stats = [path.stat() if path.exists() else None for path in paths]
    return tuple(stat and (stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


@functools.lru_cache(maxsize=16)
def _cached_runs(kept: Path, paper: str, version: tuple) -> dict[str, Record]:
    for name in (METRICS, STUDIES):
        _checked_text(kept, f"{paper}/{name}")
    return _read_runs(kept, paper)


@functools.lru_cache(maxsize=16)
def _cached_paper(kept: Path, paper: str, version: tuple) -> KeptPaper:
    return _read_paper(kept, paper)


def _checked_text(kept: Path, name: str, merging: bool = False) -> str:
    """Return the text of a file, checked against SHA256SUMS unless `merging`; empty if it neither exists nor is listed."""
    path = kept / name
    listed = None if merging else checksums(kept).get(name)
    if not os.path.lexists(path):
        if listed:
            raise UserError(f"{path}: listed in {kept / SUMS}, but not there; {RESTORE}")
        return ""
    content = read_file(path, RESTORE)
    if not merging and listed is None:
        raise UserError(f"{path}: not listed in {kept / SUMS}; {RESTORE}")
    if not merging and sha256(content) != listed:
        raise UserError(f"{path}: changed since it was kept; {RESTORE}")
    return _decode(path, content)


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"{path}: line {line}: not UTF-8; {RESTORE}") from None


def _read_paper(kept: Path, paper: str, merging: bool = False) -> KeptPaper:
    runs = _read_runs(kept, paper, merging)
    metrics: dict[Group, tuple] = {}  # columns, number of rows, sha256
    studies: dict[Group, tuple] = {}
    for run, record in runs.items():
        metrics[run,] = (record["columns"], record["rounds"] + 1, record["metrics"])
        for name, study in record["studies"].items():
            studies[run, name] = (study["columns"], study["rows"], study["table"])
    lines = {run: f"{kept / paper / RUNS}: line {number}" for number, run in enumerate(runs, 1)}

    def read_rows(name: str, keys: int, expected: Mapping[Group, tuple]) -> dict[Group, Rows]:
        path = kept / paper / name
        rows = _parse_groups(path, _checked_text(kept, f"{paper}/{name}", merging), keys, merging)
        if unknown := rows.keys() - expected.keys():
            raise UserError(f"{path}: rows of {' '.join(min(unknown))}, which {RUNS} does not list; {RESTORE}")
        for group, (_, count, _) in expected.items():
            numbers = list(rows.get(group, {}))
            if len(numbers) != count or numbers != list(range(len(numbers))):
                line, title = lines[group[0]], " ".join(group)
                raise UserError(f"{line}: {name} has {len(numbers)} rows of {title}, not {count}; {RESTORE}")
        return {
            group: _select_columns(path, group[0], rows.get(group, {}), columns, sum)
            for group, (columns, _, sum) in expected.items()
        }

    return KeptPaper(runs, read_rows(METRICS, 1, metrics), read_rows(STUDIES, 2, studies))


def _select_columns(path: Path, run: str, rows: Mapping[int, dict[str, str]], columns: list[str], sum: str) -> Rows:
    """Return the rows of a run or study with only its columns. Raises UserError if their sha256 is not `sum`."""
    try:
        selected = [{column: row[column] for column in columns} for row in rows.values()]
    except KeyError as error:
        raise UserError(f"{path}: lacks the column {error}; {RESTORE}") from None
    if sha256(rows_to_csv(selected, columns)) != sum:
        raise UserError(f"{path}: the rows of {run} are not those that it wrote; {RESTORE}")
    if not any(row.get(SECONDS) for row in rows.values()):
        return selected
    return [chosen | {SECONDS: row[SECONDS]} for chosen, row in zip(selected, rows.values(), strict=True)]


def _read_runs(kept: Path, paper: str, merging: bool = False) -> dict[str, Record]:
    environments = _read_environments(kept, merging)
    path = kept / paper / RUNS

    def entries() -> Iterator[NumberedEntry]:
        for number, line in enumerate(_checked_text(kept, f"{paper}/{RUNS}", merging).split("\n")[:-1], 1):
            where = f"{path}: line {number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                raise UserError(f"{where}: no run in JSON; {RESTORE}") from None
            check_types(KeptResult, record, where, RESTORE)
            if not record["run"].endswith(run_hash(record)):
                raise UserError(f"{where}: not the settings that {record['run']} is named after; {RESTORE}")
            for owner in (record, *record["studies"].values()):
                if owner["environment"] not in environments:
                    raise UserError(f"{where}: {ENVIRONMENTS} lacks {owner['environment']}; {RESTORE}")
                owner["environment"] = environments[owner["environment"]]
            yield number, (record["run"],), record

    return {run: record for (run,), record in _collect_sorted(path, entries(), merging).items()}


def _read_environments(kept: Path, merging: bool) -> dict[str, Record]:
    path, text = kept / ENVIRONMENTS, _checked_text(kept, ENVIRONMENTS, merging)
    environments = {}
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if line in ("{", "}"):
            continue
        try:
            environments |= ENVIRONMENT.validate_json("{" + line.removesuffix(",") + "}")
        except ValueError:
            raise UserError(f"{path}: line {number}: no environment in JSON; {RESTORE}") from None
    return environments


def _parse_groups(path: Path, text: str, keys: int, merging: bool) -> dict[Group, dict[int, dict[str, str]]]:
    """Return the rows of a CSV by group, the texts in the first `keys` columns, and by number, the column after them. With
    `merging` there is a header for each branch, which may differ in the other columns."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = next(reader, [])
    columns = dict.fromkeys(header)

    def entries() -> Iterator[NumberedEntry]:
        nonlocal header
        for cells in reader:
            if merging and cells[: keys + 1] == header[: keys + 1]:
                header = cells
                columns.update(dict.fromkeys(header))
                continue
            try:
                row = dict(zip(header, cells, strict=True))
                row = {name: cell for name, cell in row.items() if cell} if merging else row
                yield reader.line_num, (*cells[:keys], int(cells[keys])), row
            except (ValueError, IndexError):
                raise UserError(f"{path}: line {reader.line_num}: no row of the {len(header)} columns; {RESTORE}") from None

    groups: dict[Group, dict[int, dict[str, str]]] = {}
    try:
        for (*group, number), row in _collect_sorted(path, entries(), merging).items():
            groups.setdefault(tuple(group), {})[number] = dict.fromkeys(columns, "") | row
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num}: {error}; {RESTORE}") from None
    return groups


def _collect_sorted(path: Path, entries: Iterable[NumberedEntry], merging: bool) -> dict[tuple, Any]:
    """Return values by key. Raises UserError if keys are not in order; `merging` allows any order, and duplicates that are
    equal but for the seconds of a round."""
    values: dict[tuple, Any] = {}
    last: tuple = ()
    for number, key, value in entries:
        if key <= last and not merging:
            raise UserError(f"{path}: line {number}: not in order; {RESTORE}")
        if _without_seconds(values.setdefault(key, value)) != _without_seconds(value):
            raise UserError(f"{path}: line {number}: differs from another of {' '.join(map(str, key))}; leave one of them")
        last = key
    return dict(sorted(values.items())) if merging else values


def _without_seconds(value: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if name != SECONDS}


# writing


def _run_line(record: Record, environments: dict[str, Record]) -> str:
    """Return a run's line in `runs.jsonl`; add its environment and those of its studies to `environments` by their ids."""

    def refer_to_environment(owner: Record) -> Record:
        id = provenance.value_digest(owner["environment"])
        environments[id] = owner["environment"]
        return owner | {"environment": id}

    studies = {name: refer_to_environment(study) for name, study in record["studies"].items()}
    line = refer_to_environment(record) | {"studies": studies}
    return f'{{"run": {json.dumps(line.pop("run"))}, {json.dumps(line, sort_keys=True)[1:]}\n'


def _groups_to_csv(keys: tuple[str, ...], groups: Mapping[Group, Rows]) -> str:
    """Return all rows as CSV in the order of their groups, with the group and the row's number in the `keys` columns."""
    columns = sorted({column for rows in groups.values() for row in rows[:1] for column in row} - {keys[-1]})
    table = []
    for group in sorted(groups):
        for number, row in enumerate(groups[group]):
            table.append(dict(zip(keys, (*group, str(number)), strict=True)) | row)
    return rows_to_csv(table, [*keys, *columns])


def rows_to_csv(rows: Rows, columns: list[str] | None = None) -> str:
    """Return rows as CSV, by default with the first row's columns; a cell that a row lacks is empty."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns or list(rows[0]), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
