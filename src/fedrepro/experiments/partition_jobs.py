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
    """Partitions of a paper's runs that one process draws."""

    name: str
    configs: dict[Path, Dealing]

    @property
    def datasets(self) -> list[Choice]:
        """The data sets that they divide."""
        return list({datasets.key(config.dataset): config.dataset for config in self.configs.values()}.values())


def drawings(planned: dict[str, dict[str, Planned]], paths: Paths) -> list[Drawing]:
    """Group every partition once, by the first paper that needs it: those of a data set whose files have to be fetched, and
    those of all others. To start a process takes longer than to draw a partition."""
    seen: set[Path] = set()
    found: dict[str, Drawing] = {}
    for item in every(planned):
        for run in item.runs:
            if (path := paths.partition(run.config, run.data)) not in seen:
                seen.add(path)
                dataset = run.config.dataset
                fetched = f"_{datasets.key(dataset)}".replace("-", "_") if datasets.has_files(dataset) else ""
                name = f"{item.paper}{fetched}"
                found.setdefault(name, Drawing(name, {})).configs[path] = run.config.dealing
    return list(found.values())
