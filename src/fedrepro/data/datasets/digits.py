"""1,797 handwritten digits that scikit-learn includes, so that no network is needed: 8x8, 16 grey levels.

Source: the test part of https://archive.ics.uci.edu/dataset/80. Every pixel is doubled to give (N, 1, 16, 16).
"""

from importlib import metadata
from pathlib import Path

import numpy as np

from fedrepro.core import rng
from fedrepro.data.datasets._formats import Arrays

TITLE = "scikit-learn digits"
SOURCE = "scikit-learn"
EXTENT = ((1, 16, 16), 1438, 359)
CLASSES = tuple("0123456789")
PIXELS = "bd553bbf58fd8b619e27dd9168c504d110c5dd1bc5b1add33103479cf40d8222"
FILES = ()
MIRROR = ()


def split() -> Arrays:
    """Return grey images (N, 8, 8) of 0..255 and labels; the test part is a random fifth of each class, always the same."""
    # read as a file, since importing scikit-learn takes a second
    path = metadata.distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    table = np.loadtxt(str(path), dtype=int, delimiter=",")
    images, labels = ((table[:, :-1].reshape(-1, 8, 8) * 255 + 8) // 16).astype(np.uint8), table[:, -1]
    draw = rng.numpy_generator(0, "digits split").random(len(labels))
    test = np.zeros(len(labels), bool)
    for label in range(10):
        (members,) = np.nonzero(labels == label)
        test[members[np.argsort(draw[members])[: round(len(members) / 5)]]] = True
    return images[~test], labels[~test], images[test], labels[test]


def read(raw: Path) -> Arrays:
    train_x, train_y, test_x, test_y = split()
    double = [x.repeat(2, axis=1).repeat(2, axis=2)[:, None] for x in (train_x, test_x)]
    return double[0], train_y, double[1], test_y
