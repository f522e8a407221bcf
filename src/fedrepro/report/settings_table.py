"""The settings of an experiment as tables: what all its series share, what differs, and what a scale changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedrepro.report.inputs.gathered import Results


@dataclass(frozen=True)
class Settings:
    """Paths such as `algorithm.beta` with their values. `own`: series -> those that differ between series."""

    shared: dict[str, str]
    differing: dict[str, dict[str, str]]


def collect_settings(results: Results) -> Settings:
    """What the runs of these results were resolved to; nothing where none were made."""
    configs = (
        {}
        if results.missing_reason
        else {label: flatten_settings(series["config"]) for label, series in results.note["series"].items()}
    )
    paths = dict.fromkeys(path for config in configs.values() for path in config if path != "seed")
    values = {path: [config.get(path, "") for config in configs.values()] for path in paths}
    shared = {path: found[0] for path, found in values.items() if len(set(found)) == 1}
    differing = {path: found for path, found in values.items() if path not in shared}
    own = {label: {path: found[place] for path, found in differing.items()} for place, label in enumerate(configs)}
    return Settings(shared, own)


def changed_settings(paper: Mapping[str, Any], overlay: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Setting, its value at the paper's size (empty where that is the default), and its value here, where they differ."""
    usual, here = flatten_settings(paper), flatten_settings(overlay)
    return [(path, usual.get(path, ""), value) for path, value in here.items() if usual.get(path) != value]


def flatten_settings(settings: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Each setting by its path; a choice is the value of its kind, and its options lie below."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        path = f"{above}{key}".removesuffix(".name")
        if isinstance(value, Mapping):
            found |= flatten_settings(value, f"{path}.")
        else:
            found[path] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return found
