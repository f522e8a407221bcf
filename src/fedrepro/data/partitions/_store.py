"""Storage of partitions, one file each, and of their heat maps' markers.

A partition is a function of settings and labels and takes a fraction of a second to draw. So a
stored one is compared with what the settings draw: a file that is damaged or belongs to other
settings is never used.
"""

from pathlib import Path

import numpy as np

from fedrepro.config.params import PartitionConfig, RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.data.datasets._formats import reading
from fedrepro.data.datasets.base import Dataset, DatasetLabels
from fedrepro.data.partitions import base
from fedrepro.data.partitions.base import Partition

DRAW_AGAIN = "delete it, it is drawn again"


def provide(
    config: RunConfig | PartitionConfig, data: Dataset | DatasetLabels, path: Path
) -> Partition:
    """Return a run's partition, and store it at `path` if it is not there. Raises UserError if
    another is stored there."""
    drawn = base.for_run(config, data)
    if not path.exists():
        base.save(drawn, path)
        return drawn
    with reading(path, DRAW_AGAIN), np.load(path, allow_pickle=False) as file:
        stored = dict(file)
    arrays = base.to_arrays(drawn)
    if stored.keys() != arrays.keys() or not all(
        np.array_equal(stored[name], array) for name, array in arrays.items()
    ):
        raise UserError(f"{path}: not the partition that the settings draw; {DRAW_AGAIN}")
    return drawn


PNG_KEY = "Source"  # of the text in the PNG that holds the marker


def heatmap_marker(partition: Path) -> str:
    """Return the marker of a stored partition's heat map, which depends on the partition and on the
    code that draws it."""
    return provenance.value_digest([partition.stem, provenance.heatmap_digest()])


def is_heatmap_current(path: Path, partition: Path) -> bool:
    """Return whether a heat map exists, is readable, shows this stored partition and was drawn by
    today's code."""
    from PIL import Image, UnidentifiedImageError  # not part of the training core

    try:
        with Image.open(path) as image:
            return image.info.get(PNG_KEY) == heatmap_marker(partition)
    except (FileNotFoundError, UnidentifiedImageError):
        return False
