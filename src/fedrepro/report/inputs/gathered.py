"""Gathered results, as reports read them."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fedrepro import __version__
from fedrepro.core.files import parse_rows, read_file, read_required_json
from fedrepro.report.statistics import Curve
from fedrepro.runs import reasons
from fedrepro.runs.reasons import MissingReason, unfinished

Value, Default = TypeVar("Value"), TypeVar("Default")


@dataclass(frozen=True)
class Results:
    """What `runs.gather` wrote for one experiment, or for one study of it."""

    note: dict[str, Any]
    rows: list[dict[str, str]]

    @property
    def missing_reason(self) -> MissingReason | None:
        return reasons.from_note(self.note)

    @property
    def scales(self) -> tuple[str, ...]:
        """The scale, and those that it is like, the nearest first."""
        return (self.note["scale"], *self.note.get("scale_like", ()))

    def at_scale(self, by_scale: Mapping[str, Value], default: Default = None) -> Value | Default:
        """What is said for the scale, else for the nearest that it is like; else what is usual."""
        return next((by_scale[scale] for scale in self.scales if scale in by_scale), default)

    @property
    def compare(self) -> str:
        return self.note["compare"]

    @property
    def latex_name(self) -> str:
        """The paper in LaTeX's labels and commands; with the scale where it is not the paper's own, so that an article may have
        both."""
        paper, scale = self.note["paper"], self.note["scale"]
        return paper if self.compare == "full" else f"{paper}-{scale}"

    @property
    def labels(self) -> list[str]:
        return list(self.note["series"])

    @property
    def unfinished_series(self) -> list[str]:
        """The series that are not finished."""
        return self.note.get("missing", [])

    def series_missing_reason(self, labels: Sequence[str] = ()) -> MissingReason | None:
        """Why there is nothing of all of these series."""
        return self.missing_reason or (unfinished(labels) if labels and set(labels) <= set(self.unfinished_series) else None)

    @property
    def settings(self) -> dict[str, Any]:
        """A study's."""
        return self.note["settings"]

    def runs(self, label: str | None = None) -> list[dict[str, Any]]:
        """Provenance records of one series, none of one that is missing; or of all."""
        if label in self.unfinished_series:
            return []
        chosen = self.note["series"] if label is None else {label: self.note["series"][label]}
        return [run for series in chosen.values() for run in series["runs"]]

    def curves(self, label: str, measure: str) -> dict[int, Curve]:
        """Seed -> (round, value) where it was measured. A diverged run has no curve: its numbers mean nothing."""
        curves: dict[int, list] = defaultdict(list)
        for row in self.finished_rows(label):
            if row.get(measure, "") != "":
                curves[int(row["seed"])].append((int(row["round"]), float(row[measure])))
        return dict(curves)

    def finished_rows(self, label: str) -> list[dict[str, str]]:
        """The rows of a series, without its diverged runs."""
        seeds = {str(run["seed"]) for run in self.runs(label) if run["status"] == "finished"}
        return [row for row in self._by_series.get(label, []) if row["seed"] in seeds]

    @functools.cached_property
    def _by_series(self) -> dict[str, list[dict[str, str]]]:
        """Dozens of claims ask for the rows of a series, of thousands of rows in all."""
        found: dict[str, list[dict[str, str]]] = {}
        for row in self.rows:
            found.setdefault(row["series"], []).append(row)
        return found

    def diverged_runs(self, label: str) -> list[str]:
        """What is to be said of the runs that diverged."""
        return [f"seed {run['seed']} {run['status']}" for run in self.runs(label) if run["status"] != "finished"]


class LazyResults(dict):
    """Gathered results in a folder by their name, each read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Results:
        self[name] = load(self.folder, name)
        return self[name]


def load(folder: Path, name: str) -> Results:
    note = read_required_json(folder / f"{name}.json", "scale", "compare", "skipped", "series")
    table = folder / f"{name}.csv"
    return Results(note, parse_rows(read_file(table), table))


def version_text() -> str:
    return f"fedrepro {__version__}"


def provenance_text(results: Iterable[Results]) -> str:
    """Version, and the runs' commits with their dates, where they are known; the oldest first."""
    runs = [run for found in results for run in found.runs()]
    commits = sorted({(run.get("commit_date") or "", run["commit"]) for run in runs})
    named = [f"{commit} ({date[:10]})" if date else commit for date, commit in commits]
    return f"{version_text()}{'; runs at commit ' + ', '.join(named) if named else ''}"
