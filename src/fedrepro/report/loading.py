"""An experiment's gathered results, as reports read them."""

import csv
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.metrics import Curve


@dataclass(frozen=True)
class Results:
    """What `results.gather` wrote for one experiment."""

    note: dict[str, Any]
    rows: list[dict[str, str]]

    @property
    def skipped(self) -> str | None:
        return self.note["skipped"]

    @property
    def compare(self) -> str:
        return self.note["compare"]

    @property
    def labels(self) -> list[str]:
        return list(self.note["series"])

    def runs(self, label: str | None = None) -> list[dict[str, Any]]:
        """Provenance records of one series, or of all."""
        chosen = self.note["series"] if label is None else {label: self.note["series"][label]}
        return [run for series in chosen.values() for run in series["runs"]]

    def curves(self, label: str, metric: str) -> dict[int, Curve]:
        """Seed -> (round, value) where the metric was measured. A diverged run has no curve: its numbers mean nothing."""
        good = {run["seed"] for run in self.runs(label) if run["status"] == "finished"}
        curves: dict[int, list] = defaultdict(list)
        for row in self.rows:
            if row["series"] == label and int(row["seed"]) in good and row[metric] != "":
                curves[int(row["seed"])].append((int(row["round"]), float(row[metric])))
        return dict(curves)

    def arrivals(self, label: str) -> dict[int, dict[int, int | None]]:
        """Of a study of new clients: seed -> client -> epochs until its own-test accuracy first is at the target; None where it
        never is. A diverged run has none."""
        target = self.note["settings"]["target"]
        good = {run["seed"] for run in self.runs(label) if run["status"] == "finished"}
        found: dict[int, dict[int, int | None]] = defaultdict(dict)
        for row in self.rows:
            seed, client = int(row["seed"]), int(row["client"]) if row["series"] == label else -1
            if client < 0 or seed not in good:
                continue
            found[seed].setdefault(client, None)
            if found[seed][client] is None and float(row["accuracy"]) >= target:
                found[seed][client] = int(row["epoch"])
        return dict(found)

    def diverged(self, label: str) -> list[str]:
        """What is to be said of the runs that diverged."""
        return [f"seed {run['seed']} {run['status']}" for run in self.runs(label) if run["status"] != "finished"]


def load(folder: Path, experiment: str) -> Results:
    note = json.loads((folder / f"{experiment}.json").read_text(encoding="utf-8"))
    with (folder / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return Results(note, list(csv.DictReader(file)))
