"""Paths of data, runs, kept results and reports."""

import os
from dataclasses import dataclass
from pathlib import Path

from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.runs.records import KEPT


@dataclass(frozen=True)
class Paths:
    """The top folders, and the folders and files in them by paper, data set or run."""

    data: Path = Path("data")
    results: Path = Path("results")
    reports: Path = Path("reports")

    @property
    def raw(self) -> Path:
        return self.data / "raw"

    def prepared(self, dataset: Choice | str) -> Path:
        return self.data / "prepared" / datasets.key(dataset)

    def partition(self, config: RunConfig, data: str) -> Path:
        """Return the file of a run's partition; its name hashes all that the partition depends
        on."""
        choice = config.partition
        images = (config.train_images, config.test_images)
        apart: list = [] if config.proxy is None else [[config.proxy.share, config.proxy.removed]]
        apart += [] if config.validation is None else [*config.validation.model_dump().values()]
        dependencies = [
            choice.model_dump(mode="json"),
            images,
            data,
            provenance.partition_digest(choice.name),
            *apart,
        ]
        key = provenance.value_digest(dependencies, 8)
        return (
            self.data
            / "partitions"
            / f"{config.dataset.name}-{choice.name}-s{config.seed}-{key}.npz"
        )

    def runs(self, paper: str) -> Path:
        return self.results / "runs" / paper

    def kept(self, paper: str) -> Path:
        return self.results / "kept" / f"{paper}{KEPT}"

    def stored(self, paper: str) -> Path:
        return self.results / "stored" / paper / "runs"


def repository_root() -> Path:
    """Return the nearest folder, from the working folder upwards, with params.yaml and workflow/.
    Raises UserError."""
    start = Path().resolve()
    for folder in (start, *start.parents):
        if (folder / "params.yaml").exists() and (folder / "workflow").exists():
            return folder
    raise UserError(
        f"{start}: not inside a fedrepro checkout: no params.yaml here or above; change into one "
        f"or pass reports="
    )


def data_folder() -> Path:
    """Return the checkout's folder of data sets; outside of a checkout, one in the user's cache."""
    try:
        return repository_root() / "data"
    except UserError:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrepro"
