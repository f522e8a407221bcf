"""Partitions drawn and stored, each with its heat map beside it: clients x classes."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from fedrepro import datasets, partitions
from fedrepro.config import RunConfig
from fedrepro.datasets import Labels
from fedrepro.report.drawing import COLUMN, setup


def provide(configs: dict[Path, RunConfig], prepared: Path) -> None:
    """Each partition at its path, and its heat map beside it, of the data set in the folder `prepared`; what is there stays."""
    data = datasets.labels(prepared)
    for path, config in configs.items():
        if not path.exists():
            partitions.save(partitions.of_run(config, data), path)
        if not path.with_suffix(".png").exists():
            draw(config, data, path)


def draw(config: RunConfig, data: Labels, path: Path) -> None:
    """Draw the partition stored at `path`, as a PNG beside it."""
    stored = partitions.load(path)
    train, _ = partitions.subset(data, config.train_images, config.test_images)
    counts = stored.counts(data.train.labels[train], data.train.classes)
    options = ", ".join(
        f"{key} {value}" for key, value in config.partition.options.items() if not isinstance(value, bool | None)
    )
    anew = "\ndealt anew every round, round 1 shown" if stored.redraw_seed is not None else ""
    setup()
    drawing = heatmap(
        counts, data.meta["class_names"], f"{data.meta['title']}: {config.partition.name}\n{options}, seed {config.seed}{anew}"
    )
    drawing.savefig(path.with_suffix(".png"), metadata={"Software": None})
    plt.close(drawing)


def heatmap(counts: np.ndarray, classes: list[str], title: str) -> plt.Figure:
    """Heat map of clients x classes: how many training images of each class a client holds."""
    clients = len(counts)
    drawing, axes = plt.subplots(figsize=(COLUMN, min(6.0, 1.2 + 0.12 * max(clients, 8))), layout="constrained")
    shown = clients <= 12 and len(classes) <= 12
    step = max(1, clients // 10)
    few = len(classes) <= 12
    sns.heatmap(counts, ax=axes, cmap="rocket_r", vmin=0, annot=shown, fmt="d", annot_kws={"fontsize": 6}, linewidths=0,
                cbar_kws={"label": "training images"}, yticklabels=step, xticklabels=classes if few else 10)  # fmt: skip
    axes.set(xlabel="class", ylabel="client")
    axes.set_title(title, fontsize=7)
    if shown:
        slanted = max(map(len, classes)) > 2
        plt.setp(axes.get_xticklabels(), rotation=45 * slanted, ha="right" if slanted else "center", rotation_mode="anchor")
    plt.setp(axes.get_yticklabels(), rotation=0)
    return drawing
