"""The committed results of finished runs, below `results/kept`.

    <paper>/runs.jsonl   one line for each run: settings, data, code, outcome, time, and its studies without their rows
    <paper>/metrics.csv  one row for each run and round
    <paper>/studies.csv  the rows of the studies
    environments.json    where runs and studies were made, by the id that their lines name
    SHA256SUMS           of these files, as `sha256sum --check` reads it

All of them are sorted. A process reads each file once and checks it against SHA256SUMS.
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
from typing import Any

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

RUNS, METRICS, STUDIES = "runs.jsonl", "metrics.csv", "studies.csv"  # of a paper
ENVIRONMENTS, SUMS = "environments.json", "SHA256SUMS"
LINE = re.compile(r"(?P<sum>[0-9a-f]{64})  (?P<name>\S.*)")
IDENTITY_FIELDS = ("config", "data", "code")
RESULT_FIELDS = ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code", "metrics")  # of a run's end
RECORD_FIELDS = ("run", "dataset", "config", *RESULT_FIELDS, "columns", "environment", "studies")
RESTORE = "git restore results/kept brings back what was committed"
Record = dict[str, Any]
Rows = list[dict[str, str]]
Group = tuple[str, ...]  # a run; a run and a study
NumberedEntry = tuple[int, tuple, Any]  # line number, key, value


@dataclass(frozen=True)
class KeptPaper:
    """A paper's kept runs: what is known of each, the rows of each, and the rows of each study of one."""

    runs: dict[str, Record] = field(default_factory=dict)
    metrics: dict[Group, Rows] = field(default_factory=dict)
    studies: dict[Group, Rows] = field(default_factory=dict)

    def add(self, record: Record, rows: Rows) -> None:
        self.runs[record["run"]] = {"studies": {}} | record | {"columns": list(rows[0])}
        self.metrics[record["run"],] = rows

    def add_study(self, run: str, name: str, note: Record, rows: Rows) -> None:
        studies = self.runs[run]["studies"] | {name: note | {"columns": list(rows[0]), "rows": len(rows)}}
        self.runs[run] = self.runs[run] | {"studies": studies}
        self.studies[run, name] = rows

    def remove(self, run: str) -> None:
        del self.runs[run], self.metrics[run,]
        for group in [group for group in self.studies if group[0] == run]:
            del self.studies[group]


def is_kept(folder: Path) -> bool:
    """Whether a run is a committed one: its folder, which only names it, would be below `results/kept`."""
    return folder.parent.parent.name == "kept"


def run_hash(record: Record) -> str:
    """The end of a run's name: the hash of all that determines the result."""
    return provenance.value_digest({name: record[name] for name in IDENTITY_FIELDS})


def load_runs(folder: Path) -> Mapping[str, Record]:
    """What is known of a paper's kept runs, by name. Raises UserError if any of its files is damaged or not as it was kept."""
    return _cached_runs(folder.parent, folder.name, _version(folder))


def load_paper(folder: Path) -> KeptPaper:
    """The same with all rows."""
    return _cached_paper(folder.parent, folder.name, _version(folder))


def load_all(kept: Path) -> dict[str, KeptPaper]:
    """All papers, to be changed and saved."""
    papers = {name: load_paper(kept / name) for name in _paper_names(checksums(kept))}
    return {name: KeptPaper(dict(own.runs), dict(own.metrics), dict(own.studies)) for name, own in papers.items()}


def save(kept: Path, papers: Mapping[str, KeptPaper]) -> None:
    """Replace all files below `kept`. If the process is killed in between, `settle` completes it or takes it back."""
    environments: dict[str, Record] = {}
    texts = {}
    for name, paper in papers.items():
        lines = [_run_line(paper.runs[run], environments) for run in sorted(paper.runs)]
        texts[f"{name}/{RUNS}"] = "".join(lines)
        texts[f"{name}/{METRICS}"] = _groups_to_csv(("run", "round"), paper.metrics)
        if paper.studies or (kept / name / STUDIES).exists():
            texts[f"{name}/{STUDIES}"] = _groups_to_csv(("run", "study", "row"), paper.studies)
    described = [f"{json.dumps(id)}: {json.dumps(environments[id], sort_keys=True)}" for id in sorted(environments)]
    texts[ENVIRONMENTS] = "{\n" + ",\n".join(described) + "\n}\n"
    for name, text in texts.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        temporary_path(kept / name).write_text(text, encoding="utf-8", newline="\n")
    with atomic_write(temporary_path(kept / SUMS)) as path:  # once this is there all the others are
        path.write_text("".join(f"{sha256(texts[name])}  {name}\n" for name in sorted(texts)), encoding="utf-8", newline="\n")
    _install_parts(kept, temporary_path(kept / SUMS))


def recover(kept: Path) -> None:
    """Complete or take back what a killed `save` left, and merge what two branches kept, if git united their lines."""
    if not os.path.lexists(kept):
        return
    check_no_links(kept)
    for begun in stale_parts(kept / SUMS):
        _install_parts(kept, begun)
    remove_stale_parts_below(kept)
    listed = [name for name, _ in _read_checksums(kept / SUMS)]
    if len(set(listed)) < len(listed):
        save(kept, {name: _read_paper(kept, name, merging=True) for name in _paper_names(listed)})


def checksums(kept: Path) -> dict[str, str]:
    """The sha256 of each file by its name below `kept`. Raises UserError if there are two of one file."""
    found: dict[str, str] = {}
    for number, (name, sum) in enumerate(_read_checksums(kept / SUMS), 1):
        if found.setdefault(name, sum) != sum:
            raise UserError(f"{kept / SUMS}: line {number}: two branches kept results in {name}; `fedrepro keep` merges them")
    return found


def _read_checksums(path: Path) -> list[tuple[str, str]]:
    """The names and sums in a SHA256SUMS."""
    text = _decode(path, read_file(path)) if os.path.lexists(path) else ""
    found = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if (match := LINE.fullmatch(line)) is None:
            raise UserError(f"{path}: line {number}: not a sha256 and the name of a file; {RESTORE}")
        found.append((match["name"], match["sum"]))
    return found


def _paper_names(names: Iterable[str]) -> list[str]:
    return sorted({name.partition("/")[0] for name in names if "/" in name})


def _install_parts(kept: Path, begun: Path) -> None:
    """Put the parts that a new SHA256SUMS lists in their places, and it in its own; nothing if one of them is missing."""
    places = {}
    for name, sum in _read_checksums(begun):
        parts = [path for path in (temporary_path(kept / name), *stale_parts(kept / name), kept / name) if path.exists()]
        fitting = [path for path in parts if sha256(path.read_bytes()) == sum]
        if not fitting:
            return
        places[kept / name] = fitting[0]
    for path, new in (places | {kept / SUMS: begun}).items():
        new.replace(path)


# reading


def _version(folder: Path) -> tuple:
    """Changes with the files of a paper."""
    paths = (folder.parent / SUMS, folder.parent / ENVIRONMENTS, *(folder / name for name in (RUNS, METRICS, STUDIES)))
    found = [path.stat() if path.exists() else None for path in paths]
    return tuple(stat and (stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in found)


@functools.lru_cache(maxsize=16)
def _cached_runs(kept: Path, paper: str, version: tuple) -> dict[str, Record]:
    for name in (METRICS, STUDIES):
        _checked_text(kept, f"{paper}/{name}")
    return _read_runs(kept, paper)


@functools.lru_cache(maxsize=16)
def _cached_paper(kept: Path, paper: str, version: tuple) -> KeptPaper:
    return _read_paper(kept, paper)


def _checked_text(kept: Path, name: str, merging: bool = False) -> str:
    """The text of a file; empty if there is none and none is listed. Not held against SHA256SUMS while `merging`."""
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
    own = _read_runs(kept, paper, merging)
    metrics = {(run,): (record["columns"], record["rounds"] + 1, record["metrics"]) for run, record in own.items()}
    studies = {
        (run, name): (study["columns"], study["rows"], study["table"])
        for run, record in own.items()
        for name, study in record["studies"].items()
    }
    lines = {run: f"{kept / paper / RUNS}: line {number}" for number, run in enumerate(own, 1)}

    def rows(name: str, keys: int, expected: Mapping[Group, tuple]) -> dict[Group, Rows]:
        path = kept / paper / name
        found = _parse_groups(path, _checked_text(kept, f"{paper}/{name}", merging), keys, merging)
        if unknown := found.keys() - expected.keys():
            raise UserError(f"{path}: rows of {' '.join(min(unknown))}, which {RUNS} does not list; {RESTORE}")
        for group, (_, count, _) in expected.items():
            if list(found.get(group, {})) != list(range(count)):
                have = len(found.get(group, {}))
                raise UserError(f"{lines[group[0]]}: {name} has {have} rows of {' '.join(group)}, not {count}; {RESTORE}")
        return {group: _select_columns(path, found[group], columns, sum) for group, (columns, _, sum) in expected.items()}

    return KeptPaper(own, rows(METRICS, 1, metrics), rows(STUDIES, 2, studies))


def _select_columns(path: Path, rows: Mapping[int, dict[str, str]], columns: list[str], sum: str) -> Rows:
    """Of the rows of a group the columns that it has, as its digest says."""
    try:
        found = [{column: row[column] for column in columns} for row in rows.values()]
    except KeyError as error:
        raise UserError(f"{path}: lacks the column {error}; {RESTORE}") from None
    if sha256(rows_to_csv(found)) != sum:
        first = next(iter(rows.values()))
        raise UserError(f"{path}: the rows of {first['run']} are not those that it wrote; {RESTORE}")
    return found


def _read_runs(kept: Path, paper: str, merging: bool = False) -> dict[str, Record]:
    environments = _read_environments(kept, merging)
    path = kept / paper / RUNS

    def entries() -> Iterator[NumberedEntry]:
        for number, line in enumerate(_checked_text(kept, f"{paper}/{RUNS}", merging).split("\n")[:-1], 1):
            where = f"{path}: line {number}"
            try:
                record = json.loads(line)
                missing = [name for name in RECORD_FIELDS if name not in record]
            except (ValueError, RecursionError, TypeError):
                raise UserError(f"{where}: no run in JSON; {RESTORE}") from None
            if missing:
                raise UserError(f"{where}: lacks {', '.join(missing)}; {RESTORE}")
            if not record["run"].endswith(run_hash(record)):
                raise UserError(f"{where}: not the settings that {record['run']} is named after; {RESTORE}")
            for described in (record, *record["studies"].values()):
                if described["environment"] not in environments:
                    raise UserError(f"{where}: {ENVIRONMENTS} lacks {described['environment']}; {RESTORE}")
                described["environment"] = environments[described["environment"]]
            yield number, (record["run"],), record

    return {run: record for (run,), record in _collect_sorted(path, entries(), merging).items()}


def _read_environments(kept: Path, merging: bool) -> dict[str, Record]:
    path, text = kept / ENVIRONMENTS, _checked_text(kept, ENVIRONMENTS, merging)
    found = {}
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if line in ("{", "}"):
            continue
        try:
            found |= json.loads("{" + line.removesuffix(",") + "}")
        except ValueError:
            raise UserError(f"{path}: line {number}: no environment in JSON; {RESTORE}") from None
    return found


def _parse_groups(path: Path, text: str, keys: int, merging: bool) -> dict[Group, dict[int, dict[str, str]]]:
    """The rows of a CSV by the texts in their first `keys` columns, numbered by the next."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = next(reader, [])

    def entries() -> Iterator[NumberedEntry]:
        for cells in reader:
            if merging and cells == header:
                continue
            try:
                yield reader.line_num, (*cells[:keys], int(cells[keys])), dict(zip(header, cells, strict=True))
            except (ValueError, IndexError):
                raise UserError(f"{path}: line {reader.line_num}: no row of the {len(header)} columns; {RESTORE}") from None

    found: dict[Group, dict[int, dict[str, str]]] = {}
    try:
        for (*group, number), row in _collect_sorted(path, entries(), merging).items():
            found.setdefault(tuple(group), {})[number] = row
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num}: {error}; {RESTORE}") from None
    return found


def _collect_sorted(path: Path, entries: Iterable[NumberedEntry], merging: bool) -> dict[tuple, Any]:
    """Entries by key, which have to be in order; while `merging` in any, and the same one twice."""
    found: dict[tuple, Any] = {}
    last: tuple = ()
    for number, key, value in entries:
        if key <= last and not merging:
            raise UserError(f"{path}: line {number}: not in order; {RESTORE}")
        if found.setdefault(key, value) != value:
            raise UserError(f"{path}: line {number}: differs from another of {' '.join(map(str, key))}; leave one of them")
        last = key
    return dict(sorted(found.items())) if merging else found


# writing


def _run_line(record: Record, environments: dict[str, Record]) -> str:
    """A run in `runs.jsonl`; its environment and those of its studies are added to `environments`."""

    def referring(described: Record) -> Record:
        id = provenance.value_digest(described["environment"])
        environments[id] = described["environment"]
        return described | {"environment": id}

    own = referring(record) | {"studies": {name: referring(study) for name, study in record["studies"].items()}}
    return f'{{"run": {json.dumps(own.pop("run"))}, {json.dumps(own, sort_keys=True)[1:]}\n'


def _groups_to_csv(keys: tuple[str, ...], groups: Mapping[Group, Rows]) -> str:
    """Rows in the order of their groups, numbered in the last key."""
    named = sorted({column for rows in groups.values() for column in rows[0]} - {keys[-1]})
    table = [
        dict(zip(keys, (*group, str(number)), strict=True)) | row
        for group in sorted(groups)
        for number, row in enumerate(groups[group])
    ]
    return rows_to_csv(table, [*keys, *named])


def rows_to_csv(rows: Rows, columns: list[str] | None = None) -> str:
    """Rows as CSV; empty where a row lacks a column."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns or list(rows[0]), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
