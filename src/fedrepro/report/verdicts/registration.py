"""Registration: whether a claim, its rule and the settings of its runs stood in a commit before the
runs were made.

`registered.json` in a paper's folder holds every claim as it is decided at each scale, with all
defaults written out; `fedrepro docs` writes it. A run names the commit that trained it, and that
commit's file says what was claimed then.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.core import provenance
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.verdicts.claim import Claim
from fedrepro.report.verdicts.summary import REGISTERED_IN

REGISTERED = "registered.json"  # in a paper's folder
Entry = dict[str, Any]
Series = dict[str, Any]  # settings and seeds of one series, and the settings of its study


def series_entry(config: Mapping[str, Any], seeds: Iterable[int], study: Any = None) -> Series:
    """Return what of a series decides its numbers: its config without the seed, its seeds, and its
    study's settings."""
    settings = {key: value for key, value in config.items() if key != "seed"}
    return {"settings": settings, "seeds": sorted(seeds)} | (
        {} if study is None else {"study": study}
    )


def claim_entry(
    claim: Claim,
    quantity: Quantity,
    display: DisplayOptions,
    compare: str,
    series: Mapping[str, Any],
) -> Entry:
    """Return what of a claim decides its verdict at a scale.

    Args:
        quantity: the claim's quantity at the scale.
        display: the display options of its experiment.
        compare: what of a claim the scale judges.
        series: name of results -> label -> `series_entry`.
    """
    values = claim.model_dump(
        mode="json", include={"reported", "reported_std", "reported_runs", "tolerance"}
    )
    values |= {} if claim.least is None else {"least": claim.least}
    values |= {
        "measure": display.measure,
        "quantity": quantity.model_dump(mode="json"),
        "compare": compare,
    }
    return values | {"series": series}


def judged_entry(claim: Claim, display: DisplayOptions, sources: Mapping[str, Results]) -> Entry:
    """Return the entry of a claim as these results decide it, by name of results; the claim's own
    come first."""
    results = next(iter(sources.values()))
    quantity, series = results.at_scale(claim.scales, claim.quantity), {}
    for name, source in sources.items():
        series[name] = {
            label: series_entry(
                note["config"], (run["seed"] for run in note["runs"]), source.note.get("settings")
            )
            for label, note in source.note["series"].items()
            if label in quantity.labels
        }
    return claim_entry(claim, quantity, display, results.compare, series)


def to_text(entries: Mapping[str, Mapping[str, Entry]]) -> str:
    """Return the content of registered.json for scale -> claim -> entry. Settings stand in it once,
    by their digest."""
    settings: dict[str, Any] = {}

    def shared(entry: Entry) -> Entry:
        series = {
            name: {label: digested(one) for label, one in group.items()}
            for name, group in entry["series"].items()
        }
        return entry | {"series": series}

    def digested(one: Series) -> Series:
        digest = provenance.value_digest(one["settings"], 16)
        settings[digest] = one["settings"]
        return one | {"settings": digest}

    claims = [
        (f"{scale}.{key}", shared(entry))
        for scale, group in entries.items()
        for key, entry in group.items()
    ]
    lines = [("claims", sorted(claims)), ("settings", sorted(settings.items()))]
    return "{" + ",\n".join(f'"{name}": {{\n{_lines(values)}\n}}' for name, values in lines) + "}\n"


def _lines(values: Iterable[tuple[str, Any]]) -> str:
    return ",\n".join(
        f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in values
    )


def from_text(text: str) -> dict[str, Entry]:
    """Return `<scale>.<claim>` -> entry of a registered.json; none if it is not one."""
    try:
        content = json.loads(text)
        settings = content["settings"]
        return {
            key: entry
            | {
                "series": {
                    name: {
                        label: one | {"settings": settings[one["settings"]]}
                        for label, one in group.items()
                    }
                    for name, group in entry["series"].items()
                }
            }
            for key, entry in content["claims"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


@functools.lru_cache(maxsize=512)
def _entries_at(commit: str, path: str) -> dict[str, Entry]:
    return from_text(provenance.file_at(commit, path) or "")


@dataclass(frozen=True)
class Registration:
    """When a claim was registered: the first commit with its entry, if any; how many runs decide
    it, and how many of them were made by a commit without the entry, or by one that is unknown
    here."""

    commit: str | None
    runs: int
    late: int
    unknown: int

    def __str__(self) -> str:
        if self.unknown:
            return (
                f"unknown: the history here lacks the commits of {self.unknown} of {self.runs} runs"
            )
        if self.late:
            return f"listed after {self.late} of {self.runs} runs"
        return f"{REGISTERED_IN}{self.commit}, before its first run"


def registration(key: str, entry: Entry, commits: Iterable[str], path: Path) -> Registration:
    """Return when a claim was registered.

    Args:
        key: `<scale>.<claim>`.
        entry: the claim as it is decided now.
        commits: of its runs; one whose code had changes (`-dirty`) does not count as registered.
        path: of the paper's registered.json, from the top of the repository.
    """
    commits, name, entry = list(commits), path.as_posix(), json.loads(json.dumps(entry))
    unknown = sum(provenance.commit_date(commit) is None for commit in commits)
    late = sum(
        commit.endswith(provenance.DIRTY) or _entries_at(commit, name).get(key) != entry
        for commit in commits
    )
    versions = provenance.file_history(name)
    first = next(
        (commit for commit in versions if _entries_at(commit, name).get(key) == entry), None
    )
    return Registration(first, len(commits), late, unknown)


def of_claim(
    key: str,
    claim: Claim,
    displays: Mapping[str, DisplayOptions],
    sources: Mapping[str, Results],
    folder: Path,
) -> Registration | None:
    """Return when a claim was registered that these results decide; None if some of its series have
    none.

    Args:
        displays: the paper's display options by experiment.
        sources: name of results -> results; the claim's own come first.
        folder: of the paper, from the top of the repository.
    """
    labels = claim.quantity.labels
    if any(
        source.missing_reason or set(labels) & set(source.unfinished_series)
        for source in sources.values()
    ):
        return None
    needed = [
        (source, label) for source in sources.values() for label in labels if label in source.labels
    ]
    runs = {run["run"]: run["commit"] for source, label in needed for run in source.runs(label)}
    entry = judged_entry(claim, claim.ref.resolved(displays), sources)
    scale = next(iter(sources.values())).scales[0]
    return registration(f"{scale}.{key}", entry, runs.values(), folder / REGISTERED)
