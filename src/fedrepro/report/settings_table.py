"""The settings of an experiment as tables: shared by all series, differing between series, changed by a scale."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedrepro.report.inputs.gathered import Results


@dataclass(frozen=True)
class Settings:
    """Values of settings by path, such as `algorithm.beta`; `differing` holds by series those that are not shared by all."""

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
        label: {path: config.get(path, "") for path in paths if path not in shared} for label, config in configs.items()
    }
    return Settings(shared, differing)


def changed_settings(paper: Mapping[str, Any], overlay: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what a scale's overlay changes: setting, value in the paper (empty: the default), value at the scale."""
    original, here = flatten_settings(paper), flatten_settings(overlay)
    return [(path, original.get(path, ""), value) for path, value in here.items() if original.get(path) != value]


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return each setting's value by its path; a choice's name is the value at the choice's own path, its options are below."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}".removesuffix(".name")
        if isinstance(value, Mapping):
            flat |= flatten_settings(value, f"{path}.")
        else:
            flat[path] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flat
