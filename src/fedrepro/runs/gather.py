"""Finished runs gathered per experiment: the only files that reports read."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.core.files import atomic_write
from fedrepro.runs import integrity
from fedrepro.runs.kept import is_kept


@dataclass(frozen=True)
class ResultSources:
    """An experiment, or a study of one, to be gathered: `note` describes it and each of its series, `series` lists the run
    folders of each label; a skipped one has none and leaves its reason in `note`."""

    note: dict[str, Any]
    series: dict[str, list[Path]]
    tables: dict[str, list[Path]] | None = None  # of a study: what is read in place of each folder's metrics.csv
    keeps_existing: Sequence[Path] = ()  # the files that say that all of it is finished


def gather(sources: ResultSources, out: Path) -> None:
    """Write `<out>/<experiment>.csv` (one row per series, seed and round) and `.json` (settings and provenance).

    A column that only some runs have is empty in the rest: results that were kept may have been measured by earlier code.
    """
    name = sources.note["experiment"]
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    described = {}
    for label, folders in sources.series.items():
        records = [_record(folder) for folder in folders]
        described[label] = sources.note["series"][label] | {"runs": records}
        read = (
            map(integrity.load_metrics, folders)
            if sources.tables is None
            else map(integrity.load_study_rows, sources.tables[label])
        )
        for own, record in zip(read, records, strict=True):
            rows += [{"series": label, "seed": str(record["seed"]), "run": record["run"]} | row for row in own]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["series", "seed", "run", "round"]
    with atomic_write(out / f"{name}.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(sources.note | {"series": described}, indent=1)
    with atomic_write(out / f"{name}.json") as path:
        path.write_text(text + "\n", encoding="utf-8")


def _record(folder: Path) -> dict[str, Any]:
    """Where a run's numbers come from. Raises UserError when it is not over."""
    record = integrity.load_record(folder)
    environment = record["environment"]
    return {
        "run": folder.name,
        "kept": is_kept(folder),
        "dataset": record["dataset"],
        **{key: record["config"][key] for key in ("seed", "precision")},
        **{key: record[key] for key in ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code")},
        "commit": environment["commit"],
        "commit_date": environment.get("commit_date"),  # which earlier runs do not tell
        **{key: environment[key] for key in ("operations",) if key in environment},
        **{key: environment[key] for key in integrity.ENVIRONMENT[1:]},
    }
