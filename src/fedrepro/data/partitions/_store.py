"""Who holds which images, as it is stored: one file per partition, which is drawn once and then only compared.

A partition is a function of settings and labels, drawn in a fraction of a second. So what is stored is held against what the
settings draw: a file that is damaged, or another's, is never trained on.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.config.params import PartitionConfig, RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import check_regular
from fedrepro.data.datasets._formats import reading
from fedrepro.data.datasets.base import Dataset, DatasetLabels
from fedrepro.data.partitions import base
from fedrepro.data.partitions.base import Partition

DRAW_AGAIN = "delete it, it is drawn again"


def provide(config: RunConfig | PartitionConfig, data: Dataset | DatasetLabels, path: Path) -> Partition:
    """A run's partition, stored at `path` where it was not there. Raises UserError where another is stored there."""
    drawn = base.for_run(config, data)
    if not path.exists():
        base.save(drawn, path)
        return drawn
    check_regular(path, DRAW_AGAIN)
    with reading(path, DRAW_AGAIN):
        stored = base.load(path)
    if not all(_same(getattr(stored, field.name), getattr(drawn, field.name)) for field in fields(Partition)):
        raise UserError(f"{path}: not the partition that the settings draw; {DRAW_AGAIN}")
    return drawn


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(np.array_equal, left, right))
    return np.array_equal(left, right) if isinstance(left, np.ndarray) or isinstance(right, np.ndarray) else left == right


PNG_KEY = "Source"  # the text in the PNG


def heatmap_marker(partition: Path) -> str:
    """What the heat map of a stored partition carries: whose it is, and by which code."""
    return provenance.value_digest([partition.stem, provenance.heatmap_digest()])


def is_heatmap_current(path: Path, partition: Path) -> bool:
    """Whether a heat map is there, whole, shows this stored partition and was drawn by today's code."""
    from PIL import Image, UnidentifiedImageError  # which a machine that only trains need not have

    try:
        with Image.open(path) as image:
            return image.info.get(PNG_KEY) == heatmap_marker(partition)
    except (FileNotFoundError, UnidentifiedImageError):
        return False
