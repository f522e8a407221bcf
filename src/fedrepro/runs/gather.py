"""Gathered results: the finished runs of an experiment in one CSV and one JSON file, which reports
read."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.core.files import atomic_write
from fedrepro.runs import records


@dataclass(frozen=True)
class ResultSources:
    """The inputs of gathering an experiment, or a study of one. A skipped experiment has no series
    and a reason in `note`."""

    note: dict[str, Any]  # the description of the experiment and of its series
    series: dict[str, list[Path]]  # label -> run folders
    # label -> records of a study, whose tables are read in place of each run's
    tables: dict[str, list[Path]] | None = None
    done_files: Sequence[Path] = ()  # the files whose existence shows that all of it is finished


def gather(sources: ResultSources, out: Path) -> None:
    """Write `<out>/<experiment>.csv` (one row per series, seed and round) and `.json` (settings and
    provenance).

    A column that only some runs have is empty in the others: kept runs may have been measured by
    earlier code.
    """
    name = sources.note["experiment"]
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    series = {}
    for label, folders in sources.series.items():
        runs = [records.load(folder) for folder in folders]
        series[label] = sources.note["series"][label] | {
            "runs": list(map(_provenance, folders, runs))
        }
        tables = (
            runs
            if sources.tables is None
            else [records.load_study(path) for path in sources.tables[label]]
        )
        for table, run in zip(tables, runs, strict=True):
            start = {"series": label, "seed": str(run["config"]["seed"]), "run": run["run"]}
            rows += [start | row for row in records.rows(table["columns"])]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or [
        "series",
        "seed",
        "run",
        "round",
    ]
    with (
        atomic_write(out / f"{name}.csv") as path,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(sources.note | {"series": series}, indent=1)
    with atomic_write(out / f"{name}.json") as path:
        path.write_text(text + "\n", encoding="utf-8")


def _provenance(folder: Path, record: records.Record) -> dict[str, Any]:
    """Return the provenance and totals of a run for the JSON file."""
    environment = record["environment"]
    return {
        "run": folder.name,
        "kept": records.is_kept(folder),
        "dataset": record["dataset"],
        **{key: record["config"][key] for key in ("seed", "precision")},
        **{
            key: record[key]
            for key in ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code")
        },
        "commit": environment["commit"],
        "commit_date": environment.get("commit_date"),  # earlier runs did not record it
        **{key: environment[key] for key in ("operations",) if key in environment},
        **{key: environment[key] for key in ("device", "executor", "hardware", "torch")},
        **({"core_seconds": seconds} if (seconds := core_seconds(record)) else {}),
    }


def core_seconds(record: dict[str, Any]) -> float | None:
    """Return the core seconds that all rounds of a run took, from those that were timed; None if
    none were."""
    timed = record.get("timed_rounds")
    seconds = record.get("core_seconds", record.get("seconds"))
    return round(seconds * record["rounds"] / timed, 1) if timed and seconds else None
