"""Partitions as work: which are drawn by one job, with their heat maps."""

from dataclasses import dataclass
from pathlib import Path

from fedrepro.config.params import PartitionConfig
from fedrepro.config.types import Choice
from fedrepro.data import datasets
from fedrepro.experiments.plan import PlannedExperiment, all_experiments
from fedrepro.runs.paths import Paths


@dataclass(frozen=True)
class PartitionJob:
    """Partitions of a paper's runs that one process draws."""

    name: str
    configs: dict[Path, PartitionConfig]

    @property
    def datasets(self) -> list[Choice]:
        """The data sets that they divide."""
        return list({datasets.key(config.dataset): config.dataset for config in self.configs.values()}.values())


def partition_jobs(planned: dict[str, dict[str, PlannedExperiment]], paths: Paths) -> list[PartitionJob]:
    """Group every partition once, by the first paper that needs it: those of a data set whose files have to be fetched, and
    those of all others. To start a process takes longer than to draw a partition."""
    seen: set[Path] = set()
    found: dict[str, PartitionJob] = {}
    for item in all_experiments(planned):
        for run in item.runs:
            if (path := paths.partition(run.config, run.data)) not in seen:
                seen.add(path)
                dataset = run.config.dataset
                fetched = f"_{datasets.key(dataset)}".replace("-", "_") if datasets.has_files(dataset) else ""
                name = f"{item.paper}{fetched}"
                found.setdefault(name, PartitionJob(name, {})).configs[path] = run.config.partition_config
    return list(found.values())
