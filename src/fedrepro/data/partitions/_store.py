"""Who holds which images, as it is stored: one file per partition, which is drawn once and then only compared.

A partition is a function of settings and labels, drawn in a fraction of a second. So what is stored is held against what the
settings draw: a file that is damaged, or another's, is never trained on.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.data import partitions
from fedrepro.config.params import Dealing, RunConfig
from fedrepro.data.datasets import Dataset, Labels
from fedrepro.data.datasets._formats import reading
from fedrepro.core.errors import UserError
from fedrepro.data.partitions import Partition

AGAIN = "delete it, it is drawn again"


def provide(config: RunConfig | Dealing, data: Dataset | Labels, path: Path) -> Partition:
    """A run's partition, stored at `path` where it was not there. Raises UserError where another is stored there."""
    drawn = partitions.of_run(config, data)
    if not path.exists():
        partitions.save(drawn, path)
        return drawn
    with reading(path, AGAIN):
        stored = partitions.load(path)
    if not all(_same(getattr(stored, field.name), getattr(drawn, field.name)) for field in fields(Partition)):
        raise UserError(f"{path}: not the partition that the settings draw; {AGAIN}")
    return drawn


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(np.array_equal, left, right))
    return np.array_equal(left, right) if isinstance(left, np.ndarray) or isinstance(right, np.ndarray) else left == right
