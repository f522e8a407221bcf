"""Partitions as work: which are drawn by one job, with their heat maps."""

from dataclasses import dataclass
from pathlib import Path

from fedrepro.config.params import Dealing
from fedrepro.config.types import Choice
from fedrepro.data import datasets
from fedrepro.experiments.plan import Planned, every
from fedrepro.runs.paths import Paths


@dataclass(frozen=True)
class Drawing:
    """The partitions of a paper's runs over one data set, drawn by one process."""

    name: str
    dataset: Choice
    configs: dict[Path, Dealing]


def drawings(planned: dict[str, dict[str, Planned]], paths: Paths) -> list[Drawing]:
    """Every partition, once: grouped by the first paper that needs it, and by data set. To start a process takes longer than to
    draw a partition."""
    seen: set[Path] = set()
    found: dict[str, Drawing] = {}
    for item in every(planned):
        for run in item.runs:
            if (path := paths.partition(run.config, run.data)) not in seen:
                seen.add(path)
                name = f"{item.paper}_{datasets.key(run.config.dataset)}".replace("-", "_")
                found.setdefault(name, Drawing(name, run.config.dataset, {})).configs[path] = run.config.dealing
    return list(found.values())
