"""Finished runs gathered per experiment: the only files that reports read. Light: imports neither torch nor pandas."""

import csv
import json
from pathlib import Path
from typing import Any

from fedrepro.errors import UserError


def gather(note: dict[str, Any], series: dict[str, list[Path]], out: Path, tables: dict[str, list[Path]] | None = None) -> None:
    """Write `<out>/<experiment>.csv` (one row per series, seed and round) and `.json` (settings and provenance).

    `note` describes the experiment and each of its series, `series` lists the run folders of each label; a skipped experiment
    has none and leaves its reason in `note`. `tables` names for each folder what is read instead of its metrics.csv. A column
    that only some of them have is empty in the rest: results that were kept may have been measured by earlier code.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    described = {}
    for label, folders in series.items():
        records = [_record(folder) for folder in folders]
        described[label] = note["series"][label] | {"runs": records}
        read = tables[label] if tables is not None else [folder / "metrics.csv" for folder in folders]
        for path, record in zip(read, records, strict=True):
            with path.open(encoding="utf-8", newline="") as file:
                rows += [
                    {"series": label, "seed": str(record["seed"]), "run": record["run"]} | row for row in csv.DictReader(file)
                ]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["series", "seed", "run", "round"]
    with (out / f"{note['experiment']}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(note | {"series": described}, indent=1)
    (out / f"{note['experiment']}.json").write_text(text + "\n", encoding="utf-8")


def is_kept(folder: Path) -> bool:
    """Whether a run's folder is on the shelf of committed results."""
    return folder.parent.parent.name == "kept"


def _record(folder: Path) -> dict[str, Any]:
    """Where a run's numbers come from. Raises UserError when it is not over."""
    if not (folder / "summary.json").exists():
        raise UserError(f"{folder}: not finished; train it first")
    summary, stored, environment = (_json(folder / f"{name}.json") for name in ("summary", "config", "environment"))
    taken = {key: summary[key] for key in ("status", "rounds", "weights", "bytes_down", "bytes_up", "data", "code")}
    return {
        "run": folder.name,
        "kept": is_kept(folder),
        "dataset": stored["dataset"],
        **{key: stored["config"][key] for key in ("seed", "precision")},
        **taken,
        **{key: environment[key] for key in ("commit", "device", "executor", "hardware", "torch")},
    }


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
