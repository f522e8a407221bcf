"""PneumoniaMNIST: chest X-rays of children, 5,232 + 624, grey (1, 28, 28). Yang et al. 2023, https://medmnist.com.

The training part is the release's train (4,708) and val (524) together, which is how many images the original has for training.
`pneumonia_64`, `pneumonia_128` and `pneumonia_224` are the same images, larger.
"""

from pathlib import Path

from fedrepro.data.datasets import _medmnist
from fedrepro.data.datasets._formats import Arrays

TITLE = "PneumoniaMNIST"
EXTENT = ((1, 28, 28), 5232, 624)
CLASSES = ("normal", "pneumonia")
PIXELS = None
ARCHIVE = "pneumoniamnist.npz"
FILES = (_medmnist.file(ARCHIVE, "28209eda62fecd6e6a2d98b1501bb15f"),)
MIRROR = ((f"pneumonia28/{ARCHIVE}",),)


def read(raw: Path) -> Arrays:
    return _medmnist.grey(raw / ARCHIVE, 28)
