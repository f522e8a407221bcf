"""Where everything lies."""

from dataclasses import dataclass
from pathlib import Path

from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.data import datasets


@dataclass(frozen=True)
class Paths:
    """Every folder, in one place."""

    data: Path = Path("data")
    results: Path = Path("results")
    reports: Path = Path("reports")

    @property
    def raw(self) -> Path:
        return self.data / "raw"

    def prepared(self, dataset: Choice | str) -> Path:
        return self.data / "prepared" / datasets.key(dataset)

    def partition(self, config: RunConfig, data: str) -> Path:
        """Where a run's partition is stored; its name covers all that it depends on."""
        choice = config.partition
        images = (config.train_images, config.test_images)
        held = [] if config.proxy is None else [[config.proxy.share, config.proxy.removed]]
        about = [choice.model_dump(mode="json"), images, data, provenance.partition_digest(choice.name), *held]
        key = provenance.value_digest(about, 8)
        return self.data / "partitions" / f"{config.dataset.name}-{choice.name}-s{config.seed}-{key}.npz"

    def runs(self, paper: str) -> Path:
        return self.results / "runs" / paper

    def kept(self, paper: str) -> Path:
        return self.results / "kept" / paper

    def stored(self, paper: str) -> Path:
        return self.results / "stored" / paper


def repository_root() -> Path:
    """The repository that the working folder lies in: its top folder has params.yaml. Raises UserError."""
    start = Path().resolve()
    for folder in (start, *start.parents):
        if (folder / "params.yaml").exists() and (folder / "workflow").exists():
            return folder
    raise UserError(f"{start}: not inside a fedrepro checkout: no params.yaml here nor above; go into one or say reports=")
