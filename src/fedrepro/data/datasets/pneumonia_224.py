"""PneumoniaMNIST at 224x224, otherwise as `pneumonia`: 5,232 + 624, grey (1, 224, 224). Yang et al. 2023, https://medmnist.com."""

from pathlib import Path

from fedrepro.data.datasets import _medmnist
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets.pneumonia import CLASSES, PIXELS

__all__ = ["ARCHIVE", "CLASSES", "EXTENT", "FILES", "MIRROR", "PIXELS", "TITLE", "read"]

TITLE = "PneumoniaMNIST, 224 px"
EXTENT = ((1, 224, 224), 5232, 624)
ARCHIVE = "pneumoniamnist_224.npz"
FILES = (_medmnist.file(ARCHIVE, "d6a3c71de1b945ea11211b03746c1fe1"),)
MIRROR = ((f"pneumonia224/{ARCHIVE}",),)


def read(raw: Path) -> Arrays:
    return _medmnist.grey(raw / ARCHIVE, 224)
