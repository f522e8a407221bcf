"""The first 20 classes of CIFAR-100: 10,000 + 2,000 colour photographs, (3, 32, 32). Krizhevsky 2009."""

from pathlib import Path

import numpy as np

from fedrepro.data.datasets import cifar100
from fedrepro.data.datasets._formats import Arrays

TITLE = "CIFAR-100's first 20 classes"
EXTENT = ((3, 32, 32), 10000, 2000)
CLASSES = cifar100.CLASSES[:20]
ORIGIN = "cifar100"
FILES, MIRROR = cifar100.FILES, cifar100.MIRROR
PIXELS = "e31f357c2301819a347160cc4c2e9f0c1b0d5568c443c9bfe9bde7cf47cc4c3a"


def _first(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the images (N, 3, 32, 32) and labels (N,) of the first classes, in the release's order."""
    chosen = labels < len(CLASSES)
    return images[chosen], labels[chosen]


def read(raw: Path) -> Arrays:
    train_x, train_y, test_x, test_y = cifar100.read(raw)
    return *_first(train_x, train_y), *_first(test_x, test_y)
