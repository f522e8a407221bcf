"""PneumoniaMNIST at 128x128, otherwise as `pneumonia`: 5,232 + 624, grey (1, 128, 128). Yang et al. 2023, https://medmnist.com."""

from pathlib import Path

from fedrepro.data.datasets import _medmnist
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets.pneumonia import CLASSES, PIXELS

__all__ = ["ARCHIVE", "CLASSES", "EXTENT", "FILES", "MIRROR", "PIXELS", "TITLE", "read"]

TITLE = "PneumoniaMNIST, 128 px"
EXTENT = ((1, 128, 128), 5232, 624)
ARCHIVE = "pneumoniamnist_128.npz"
FILES = (_medmnist.file(ARCHIVE, "05b46931834c231683c68f40c47b2971"),)
MIRROR = ((f"pneumonia128/{ARCHIVE}",),)


def read(raw: Path) -> Arrays:
    return _medmnist.grey(raw / ARCHIVE, 128)
