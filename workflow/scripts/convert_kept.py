"""Convert kept runs of a checkout from before `runs.jsonl`, with one folder per run, and add them to `results/kept`:

    python workflow/scripts/convert_kept.py <results/kept of that checkout>

A run with its studies replaces a kept one of the same settings and data. Delete this script once no such checkout is left.
"""

import csv
import sys
from pathlib import Path
from typing import Any

from fedrepro.core.errors import UserError
from fedrepro.core.files import read_required_json, sha256
from fedrepro.core.metrics import MEASURES
from fedrepro.runs import kept


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def migrate(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an earlier version under today's names."""
    values = dict(config)
    if "inputs" in values:
        values["pixel_scaling"] = values.pop("inputs")
    decay, floor = values.pop("lr_decay", 1.0), values.pop("lr_floor", 0.0)
    return values if decay == 1 else values | {"schedule": {"name": "exponential", "decay": decay, "floor": floor}}


def with_todays_name(record: dict[str, Any]) -> dict[str, Any]:
    """Return a run's record with migrated settings and the name that belongs to them."""
    record = record | {"config": migrate(record["config"])}
    return record | {"run": f"{record['run'].rpartition('-')[0]}-{kept.run_hash(record)}"}


def record(folder: Path) -> dict[str, Any]:
    """Return the record of a run in a folder, with today's names of fields. Raises UserError if it is inconsistent."""
    settings, summary = (read_required_json(folder / f"{name}.json") for name in ("config", "summary"))
    timing = read_required_json(folder / "timing.json")
    if not folder.name.endswith(kept.run_hash(settings)) or any(summary[name] != settings[name] for name in ("data", "code")):
        raise UserError(f"{folder}: the settings are not those that its folder is named after")
    if "final" not in summary:
        summary["final"] = {name: summary.pop(name) for name in MEASURES if name in summary}
        summary["best"] = {name: summary.pop(f"best_{name}") for name in MEASURES if f"best_{name}" in summary}
    checksum = sha256((folder / "metrics.csv").read_bytes())
    if summary.setdefault("metrics", checksum) != checksum:
        raise UserError(f"{folder / 'metrics.csv'}: changed since the run wrote it")
    environment = read_required_json(folder / "environment.json")
    names = {"run": folder.name, "rounds": summary["rounds"], "timed_rounds": timing["rounds"], "environment": environment}
    return with_todays_name(settings | summary | timing | names)


def convert(old: Path, new: Path) -> int:
    """Add the runs in a folder of papers to `new`. Returns their number."""
    papers, count = kept.load_all(new), 0
    for path in sorted(old.glob("*/*/config.json")):
        folder, paper = path.parent, papers.setdefault(path.parent.parent.name, kept.KeptPaper())
        converted = record(folder)
        for run, present in list(paper.runs.items()):
            if (present["config"], present["data"]) == (converted["config"], converted["data"]):
                paper.remove(run)
        paper.add(converted, rows(folder / "metrics.csv"))
        for note in sorted(folder.glob("*-*.json")):
            study = read_required_json(note)
            if study.pop("run") != folder.name or study["table"] != sha256(note.with_suffix(".csv").read_bytes()):
                raise UserError(f"{note}: not of this run, or its table changed since it was written")
            paper.add_study(converted["run"], note.stem, study, rows(note.with_suffix(".csv")))
        count += 1
    kept.save(new, papers)
    return count


if __name__ == "__main__":
    sys.stdout.write(f"{convert(Path(sys.argv[1]), Path('results/kept'))} runs added to results/kept\n")
