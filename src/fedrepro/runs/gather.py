"""Finished runs gathered per experiment: the only files that reports read."""

import csv
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.core.files import read_whole_json, replacing
from fedrepro.runs import integrity, reasons
from fedrepro.runs.kept import is_kept

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gathering:
    """An experiment, or a study of one, to be gathered: `note` describes it and each of its series, `series` lists the run
    folders of each label; a skipped one has none and leaves its reason in `note`."""

    note: dict[str, Any]
    series: dict[str, list[Path]]
    tables: dict[str, list[Path]] | None = None  # of a study: what is read in place of each folder's metrics.csv
    waiting: Sequence[str] = ()  # all series of what is not finished
    over: Sequence[Path] = ()  # the files that say that all of it is finished

    def stays(self, out: Path) -> bool:
        """Whether there are numbers in `out` of all series that are finished, and of more that are not, which would go."""
        path = out / f"{self.note['experiment']}.json"
        if not self.waiting or not path.exists():
            return False
        stored = set(read_whole_json(path, "skipped", "series")["series"])
        return set(self.note["series"]) < stored <= set(self.waiting)

    @property
    def staying(self) -> str:
        """The message for then."""
        return f"{reasons.read(self.note) or reasons.unfinished(self.note['missing'])}; the numbers that are there stay"


def gather(given: Gathering, out: Path) -> None:
    """Write `<out>/<experiment>.csv` (one row per series, seed and round) and `.json` (settings and provenance).

    A column that only some runs have is empty in the rest: results that were kept may have been measured by earlier code. Of
    what is not finished numbers of more series stay if they are there.
    """
    name = given.note["experiment"]
    if given.stays(out):
        log.warning("%s: %s", name, given.staying)
        return
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    described = {}
    for label, folders in given.series.items():
        records = [_record(folder) for folder in folders]
        described[label] = given.note["series"][label] | {"runs": records}
        read = map(integrity.metrics, folders) if given.tables is None else map(integrity.table, given.tables[label])
        for own, record in zip(read, records, strict=True):
            rows += [{"series": label, "seed": str(record["seed"]), "run": record["run"]} | row for row in own]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["series", "seed", "run", "round"]
    with replacing(out / f"{name}.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(given.note | {"series": described}, indent=1)
    with replacing(out / f"{name}.json") as path:
        path.write_text(text + "\n", encoding="utf-8")


def _record(folder: Path) -> dict[str, Any]:
    """Where a run's numbers come from. Raises UserError when it is not over."""
    record = integrity.record(folder)
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
