"""Gathered results of experiments and studies, and the settings behind them."""

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

from fedrepro.core.files import parse_rows, read_file, read_required_json
from fedrepro.core.version import package_version
from fedrepro.report.statistics import Curve
from fedrepro.runs import reasons
from fedrepro.runs.reasons import MissingReason, unfinished

Value = TypeVar("Value")
Default = TypeVar("Default")


@dataclass(frozen=True)
class Results:
    """The results that `runs.gather` wrote for one experiment or one study: metadata in `note`,
    metrics in `rows`."""

    note: dict[str, Any]
    rows: list[dict[str, str]]

    @property
    def missing_reason(self) -> MissingReason | None:
        return reasons.from_note(self.note)

    @property
    def scales(self) -> tuple[str, ...]:
        """Return the scale and the scales that it inherits from, nearest first."""
        return (self.note["scale"], *self.note.get("scale_like", ()))

    @overload
    def at_scale(self, by_scale: Mapping[str, Value]) -> Value | None: ...
    @overload
    def at_scale(self, by_scale: Mapping[str, Value], default: Default) -> Value | Default: ...
    def at_scale(self, by_scale: Mapping[str, Any], default: Any = None) -> Any:
        """Return the value for the scale or for the nearest scale that it inherits from, otherwise
        the default."""
        return next((by_scale[scale] for scale in self.scales if scale in by_scale), default)

    @property
    def compare(self) -> str:
        return self.note["compare"]

    @property
    def latex_name(self) -> str:
        """Return the paper's name in LaTeX labels and commands.

        It includes the scale unless that is the paper's own, so that an article can show both.
        """
        paper, scale = self.note["paper"], self.note["scale"]
        return paper if self.compare == "full" else f"{paper}-{scale}"

    @property
    def labels(self) -> list[str]:
        return list(self.note["series"])

    @property
    def unfinished_series(self) -> list[str]:
        """Return the labels of series whose runs are not finished."""
        return self.note.get("missing", [])

    def series_missing_reason(self, labels: Sequence[str] = ()) -> MissingReason | None:
        """Return why none of the series has results; None if one has, or if no series is given."""
        return self.missing_reason or (
            unfinished(labels) if labels and set(labels) <= set(self.unfinished_series) else None
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of a study."""
        return self.note["settings"]

    def runs(self, label: str | None = None) -> list[dict[str, Any]]:
        """Return the provenance records of all series or of one; an unfinished series has none."""
        if label in self.unfinished_series:
            return []
        chosen = self.note["series"] if label is None else {label: self.note["series"][label]}
        return [run for series in chosen.values() for run in series["runs"]]

    def curves(self, label: str, measure: str) -> dict[int, Curve]:
        """Return seed -> (round, value) for the measured rounds of finished runs; numbers of a
        diverged run mean nothing."""
        curves: dict[int, list] = defaultdict(list)
        for row in self.rows_without_diverged(label):
            if row.get(measure, "") != "":
                curves[int(row["seed"])].append((int(row["round"]), float(row[measure])))
        return dict(curves)

    def rows_without_diverged(self, label: str) -> list[dict[str, str]]:
        """Return the rows of a series, without its diverged runs."""
        seeds = {str(run["seed"]) for run in self.runs(label) if run["status"] == "finished"}
        return [row for row in self._by_series.get(label, []) if row["seed"] in seeds]

    @functools.cached_property
    def _by_series(self) -> dict[str, list[dict[str, str]]]:
        """Return the rows by series; cached, since dozens of claims need them and there are
        thousands of rows."""
        by_series: dict[str, list[dict[str, str]]] = {}
        for row in self.rows:
            by_series.setdefault(row["series"], []).append(row)
        return by_series

    def diverged_runs(self, label: str) -> list[str]:
        """Describe each diverged run of a series, such as "seed 1 diverged at round 7"."""
        return [
            f"seed {run['seed']} {run['status']}"
            for run in self.runs(label)
            if run["status"] != "finished"
        ]


@dataclass(frozen=True)
class Settings:
    """Values of settings by path, such as `algorithm.beta`; `differing` holds by series those that
    are not shared by all."""

    shared: dict[str, str]
    differing: dict[str, dict[str, str]]


def collect_settings(results: Results) -> Settings:
    """Return the resolved settings of the runs behind some results; empty if there are no runs."""
    series = {} if results.missing_reason else results.note["series"]
    configs = {label: flatten_settings(entry["config"]) for label, entry in series.items()}
    paths = dict.fromkeys(path for config in configs.values() for path in config)
    paths.pop("seed", None)
    values = {path: [config.get(path, "") for config in configs.values()] for path in paths}
    shared = {path: by_series[0] for path, by_series in values.items() if len(set(by_series)) == 1}
    differing = {
        label: {path: config.get(path, "") for path in paths if path not in shared}
        for label, config in configs.items()
    }
    return Settings(shared, differing)


def changed_settings(
    paper: Mapping[str, Any], overlay: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Return what a scale's overlay changes: setting, value in the paper (empty: the default),
    value at the scale."""
    original, here = flatten_settings(paper), flatten_settings(overlay)
    return [
        (path, original.get(path, ""), value)
        for path, value in here.items()
        if original.get(path) != value
    ]


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return each setting's value by its path; a choice's name is the value at the choice's own
    path, its options are below."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}".removesuffix(".name")
        if isinstance(value, Mapping):
            flat |= flatten_settings(value, f"{path}.")
        else:
            flat[path] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flat


class LazyResults(dict):
    """Gathered results in a folder by name, each read on first use."""

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
    return f"fedrepro {package_version()}"


def provenance_text(results: Iterable[Results]) -> str:
    """Return the version and the runs' commits with their dates, if known, oldest first."""
    runs = [run for result in results for run in result.runs()]
    commits = sorted({(run.get("commit_date") or "", run["commit"]) for run in runs})
    named = [f"{commit} ({date[:10]})" if date else commit for date, commit in commits]
    return f"{version_text()}; runs at commit {', '.join(named)}" if named else version_text()
