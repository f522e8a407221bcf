"""Partitions drawn and stored, each with its heat map beside it: clients x classes."""

import functools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from fedrepro.config.params import PartitionConfig
from fedrepro.config.types import Choice
from fedrepro.core.files import atomic_write
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import DatasetLabels
from fedrepro.data.partitions import Partition, _store
from fedrepro.report.figures._layout import COLUMN_WIDTH, set_print_style

MANY = 12  # clients or classes: more are not named and counted one by one


def provide_heatmaps(configs: dict[Path, PartitionConfig], prepared: Callable[[Choice], Path]) -> None:
    """Store each partition at its path, and its heat map beside it; `prepared` gives the folder of a data set. What is there
    stays, but for heat maps of other code."""
    labels = functools.cache(datasets.labels)
    for path, config in configs.items():
        data = labels(prepared(config.dataset))
        stored = _store.provide(config, data, path)
        if not _store.is_heatmap_current(path.with_suffix(".png"), path):
            draw(config, data, stored, path)


def draw(config: PartitionConfig, data: DatasetLabels, stored: Partition, path: Path) -> None:
    """Draw the partition stored at `path`, as a PNG beside it."""
    train, _ = partitions.subset(data, config.train_images, config.test_images)
    counts = stored.counts(data.train.labels[train], data.train.classes)
    anew = "\ndealt anew every round, round 1 shown" if stored.redraw_seed is not None else ""
    set_print_style()
    drawing = heatmap(counts, data.meta["class_names"], f"{data.meta['title']}: {_options(config)}{anew}")
    with atomic_write(path.with_suffix(".png")) as temporary:
        drawing.savefig(temporary, format="png", metadata={"Software": None, _store.PNG_KEY: _store.heatmap_marker(path)})
    plt.close(drawing)


def _options(config: PartitionConfig) -> str:
    """The partition in words."""
    given = {key: value for key, value in config.partition.options.items() if not isinstance(value, bool | None)}
    text = ", ".join(f"{key} {_told(value)}" for key, value in given.items())
    return f"{config.partition.name}\n" + textwrap.fill(f"{text}, seed {config.seed}", 55)


def _told(value: Any) -> str:
    """A setting; of lists in a list, each behind a bar."""
    if not isinstance(value, list | tuple):
        return str(value)
    return (" | " if any(isinstance(part, list | tuple) for part in value) else " ").join(map(_told, value))


@matplotlib.rc_context({"text.parse_math": False})  # seaborn measures the names of classes
def heatmap(counts: np.ndarray, classes: list[str], title: str) -> plt.Figure:
    """Heat map of clients x classes: how many training images of each class a client holds."""
    clients, few = len(counts), len(classes) <= MANY
    drawing, axes = plt.subplots(figsize=(COLUMN_WIDTH, min(6.0, 1.2 + 0.12 * max(clients, 8))), layout="constrained")
    sns.heatmap(
        counts, cmap="magma_r", vmin=0, vmax=max(counts.max(), 1), ax=axes, cbar_kws={"label": "training images"},
        annot=few and clients <= MANY, fmt="d", annot_kws={"fontsize": 6 if counts.max() < 10_000 else 5},
        xticklabels=classes if few else 10, yticklabels=max(1, clients // 10),
    )  # fmt: skip
    slanted = few and max(map(len, classes)) > 2
    axes.tick_params(axis="x", rotation=45 * slanted)
    axes.tick_params(axis="y", rotation=0)
    if slanted:
        plt.setp(axes.get_xticklabels(), ha="right", rotation_mode="anchor")
    axes.set(xlabel="class", ylabel="client")
    axes.set_title(title, fontsize=7)
    return drawing
