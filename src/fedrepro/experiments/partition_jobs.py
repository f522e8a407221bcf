"""Partitions as work: which are drawn by one job, and where the page finds their heat maps.

A partition and its heat map lie in `data/partitions/`, which is not committed. A report has the heat maps that it shows in its
own folder, so that who has no data sees them too: `reports/<scale>/<paper>/partitions/`.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedrepro.config.params import Dealing
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.data import datasets
from fedrepro.data.partitions import _store
from fedrepro.experiments.plan import Planned, every
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run


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


def shown(group: Mapping[str, Planned], paths: Paths, folder: Path) -> dict[Path, Path]:
    """What the page shows of a paper's experiments, each partition once, of the first seed: heat map below the paper's `folder`
    -> the one that belongs to the stored partition."""
    runs = [item.runs[0] for item in group.values() if item.runs]
    return {folder / "partitions" / _name(run): paths.partition(run.config, run.data).with_suffix(".png") for run in runs}


def wanted(group: Mapping[str, Planned], paths: Paths, folder: Path) -> list[Path]:
    """The heat maps that a report of finished runs lacks, or has from other code, and that can be drawn without a fetch: the
    very data lie prepared."""
    runs = {paths.partition(item.runs[0].config, item.runs[0].data).with_suffix(".png"): item.runs[0]
            for item in group.values() if item.runs}  # fmt: skip
    return [
        drawn
        for here, drawn in shown(group, paths, folder).items()
        if not _store.current(here, drawn) and _prepared(runs[drawn], paths)
    ]


def bring(maps: Mapping[Path, Path], whole: bool = False) -> list[Path]:
    """Copy heat maps into the report (there -> drawn), where they were drawn. Returns those that the report has. `whole`: these
    are all, so that others that lie there go."""
    for there, drawn in maps.items():
        if drawn.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn, there)
    for folder in {there.parent for there in maps if whole}:
        for stale in folder.glob("*.png"):
            if stale not in maps:
                stale.unlink()
    return [there for there in maps if there.exists()]


def _name(run: Run) -> str:
    """Of the question alone, so that it outlives a change of code."""
    config = run.config
    held = [config.proxy.share] if config.proxy and config.proxy.removed else []
    key = provenance.digest([config.partition.model_dump(mode="json"), config.train_images, config.test_images, *held], 8)
    return f"{datasets.key(config.dataset)}-{config.partition.name}-s{config.seed}-{key}.png"


def _prepared(run: Run, paths: Paths) -> bool:
    folder = paths.prepared(run.config.dataset)
    return (folder / datasets.META).exists() and datasets.known(run.config.dataset, paths.raw, folder) == run.data
