"""Grouping of partitions into the jobs that draw them and their heat maps."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedrepro.config.params import PartitionConfig
from fedrepro.config.types import Choice
from fedrepro.data import datasets
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.runs.paths import Paths


@dataclass(frozen=True)
class PartitionJob:
    """Partitions that one process draws."""

    name: str
    configs: dict[Path, PartitionConfig]  # by the file of the partition

    @property
    def datasets(self) -> list[Choice]:
        """The data sets that are partitioned."""
        return list(
            {
                datasets.key(config.dataset): config.dataset for config in self.configs.values()
            }.values()
        )


def partition_jobs(experiments: Iterable[PlannedExperiment], paths: Paths) -> list[PartitionJob]:
    """Group every partition once, under the first paper that needs it. A job has the partitions of
    one data set whose files are downloaded, or of all others together, since starting a process
    takes longer than drawing a partition."""
    seen: set[Path] = set()
    jobs: dict[str, PartitionJob] = {}
    for item in experiments:
        for run in item.runs:
            path, dataset = paths.partition(run.config, run.data), run.config.dataset
            if path in seen:
                continue
            seen.add(path)
            suffix = (
                f"_{datasets.key(dataset)}".replace("/", "_") if datasets.has_files(dataset) else ""
            )
            name = f"{item.paper}{suffix}"
            jobs.setdefault(name, PartitionJob(name, {})).configs[path] = (
                run.config.partition_config
            )
    return list(jobs.values())
