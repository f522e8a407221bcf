"""PneumoniaMNIST at 64x64, otherwise as `pneumonia`: 5,232 + 624, grey (1, 64, 64). Yang et al. 2023, https://medmnist.com."""

from pathlib import Path

from fedrepro.data.datasets import _medmnist
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets.pneumonia import CLASSES, PIXELS

__all__ = ["ARCHIVE", "CLASSES", "EXTENT", "FILES", "MIRROR", "PIXELS", "TITLE", "read"]

TITLE = "PneumoniaMNIST, 64 px"
EXTENT = ((1, 64, 64), 5232, 624)
ARCHIVE = "pneumoniamnist_64.npz"
FILES = (_medmnist.file(ARCHIVE, "8f4eceb4ccffa70c672198ea285246c6"),)
MIRROR = ((f"pneumonia64/{ARCHIVE}",),)


def read(raw: Path) -> Arrays:
    return _medmnist.grey(raw / ARCHIVE, 64)
