"""Pairs of scikit-learn's digits side by side, (N, 1, 16, 16): the classes are the numbers 00 to 99. For the quick scale.

Training pairs are made of training digits only, test pairs of test digits only.
"""

from pathlib import Path

import numpy as np

from fedrepro.core import rng
from fedrepro.data.datasets import digits
from fedrepro.data.datasets._formats import Arrays

TITLE = "scikit-learn digits in pairs"
SOURCE = "scikit-learn"
EXTENT = ((1, 16, 16), 6000, 1500)
CLASSES = tuple(f"{number:02d}" for number in range(100))
PIXELS = "345a8a0bd36db1e4f70a76e3ac8614304e88dda23a275c0fcefc5f871f0e363f"
FILES = ()
MIRROR = ()
TRAIN_PER_CLASS, TEST_PER_CLASS = 60, 15


def _pairs(images: np.ndarray, labels: np.ndarray, per_class: int, purpose: str) -> tuple[np.ndarray, np.ndarray]:
    """Make pairs of digits (N, 8, 8): images (100 * per_class, 1, 16, 16) and numbers, which count up to 99 again and again."""
    numbers = np.tile(np.arange(100), per_class)
    draw = rng.numpy_generator(0, purpose).random((2, len(numbers)))
    members = [np.flatnonzero(labels == digit) for digit in range(10)]
    halves: list[np.ndarray] = []
    for chosen, draws in ((numbers // 10, draw[0]), (numbers % 10, draw[1])):
        halves.append(images[[members[digit][int(u * len(members[digit]))] for digit, u in zip(chosen, draws, strict=True)]])
    return np.concatenate(halves, axis=2).repeat(2, axis=1)[:, None], numbers


def read(raw: Path) -> Arrays:
    train_x, train_y, test_x, test_y = digits.split()
    train = _pairs(train_x, train_y, TRAIN_PER_CLASS, "digits_100 train")
    return *train, *_pairs(test_x, test_y, TEST_PER_CLASS, "digits_100 test")
