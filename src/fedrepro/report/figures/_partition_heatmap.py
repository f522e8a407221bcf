"""Heat maps of partitions: how many training images of each class each client has."""

import functools
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from fedrepro.config.params import PartitionConfig
from fedrepro.config.types import Choice
from fedrepro.core.files import atomic_write
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import DatasetLabels
from fedrepro.data.partitions import Partition, _store
from fedrepro.report.figures._layout import COLUMN_WIDTH, new_figure, set_print_style

MAX_NAMED = 12  # with more clients or classes, cells have no numbers and classes no names


def provide_heatmaps(
    configs: Mapping[Path, PartitionConfig], prepared: Callable[[Choice], Path]
) -> None:
    """Store each partition at its path, with a heat map next to it, unless they exist and the heat
    map is of today's code.

    `prepared` returns the folder of a data set.
    """
    labels = functools.cache(datasets.labels)
    for path, config in configs.items():
        data = labels(prepared(config.dataset))
        stored = _store.provide(config, data, path)
        if not _store.is_heatmap_current(path.with_suffix(".png"), path):
            draw(config, data, stored, path)


def draw(config: PartitionConfig, data: DatasetLabels, stored: Partition, path: Path) -> None:
    """Write the heat map of the partition stored at `path`, as a PNG next to it."""
    train, _ = partitions.subset(data, config.train_images, config.test_images)
    counts = stored.counts(data.train.labels[train], data.train.classes)
    redrawn = "\ndrawn again every round, round 1 shown" if stored.redraw_seed is not None else ""
    set_print_style()
    drawing = heatmap(
        counts,
        data.meta["class_names"],
        f"{data.meta['title']}: {_describe_partition(config)}{redrawn}",
    )
    with atomic_write(path.with_suffix(".png")) as temporary:
        drawing.savefig(
            temporary,
            format="png",
            metadata={"Software": None, _store.PNG_KEY: _store.heatmap_marker(path)},
        )


def _describe_partition(config: PartitionConfig) -> str:
    options = {
        key: value
        for key, value in config.partition.options.items()
        if not isinstance(value, bool | None)
    }
    text = ", ".join(f"{key} {_format_option(value)}" for key, value in options.items())
    return f"{config.partition.name}\n" + textwrap.fill(f"{text}, seed {config.seed}", 55)


def _format_option(value: Any) -> str:
    """Format an option; the items of a list are separated by spaces, lists in a list by bars."""
    if not isinstance(value, list | tuple):
        return str(value)
    separator = " | " if any(isinstance(item, list | tuple) for item in value) else " "
    return separator.join(map(_format_option, value))


@matplotlib.rc_context({"text.parse_math": False})  # seaborn measures the class names while drawing
def heatmap(counts: np.ndarray, classes: list[str], title: str) -> Figure:
    """Draw counts of training images, clients x classes, as a heat map."""
    clients, few = len(counts), len(classes) <= MAX_NAMED
    drawing = new_figure(COLUMN_WIDTH, min(6.0, 1.2 + 0.12 * max(clients, 8)))
    axes = drawing.subplots()
    sns.heatmap(
        counts,
        cmap="magma_r",
        vmin=0,
        vmax=max(counts.max(), 1),
        ax=axes,
        cbar_kws={"label": "training images"},
        annot=few and clients <= MAX_NAMED,
        fmt="d",
        annot_kws={"fontsize": 6 if counts.max() < 10_000 else 5},
        xticklabels=classes if few else 10,
        yticklabels=max(1, clients // 10),
    )
    slanted = few and max(map(len, classes)) > 2
    axes.tick_params(axis="x", rotation=45 * slanted)
    axes.tick_params(axis="y", rotation=0)
    if slanted:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set(xlabel="class", ylabel="client")
    axes.set_title(title, fontsize=7)
    return drawing
