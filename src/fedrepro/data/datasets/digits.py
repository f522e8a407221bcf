"""scikit-learn's digits, so that no network is needed, in three forms. For the quick scale.

Source: the test part of https://archive.ics.uci.edu/dataset/80: 8x8, 16 grey levels.
"""

from importlib import metadata
from pathlib import Path

import numpy as np

from fedrepro.config.types import Frozen
from fedrepro.core import rng
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets.source import Contents, DataSource

TRAIN_PER_CLASS, TEST_PER_CLASS = 60, 15  # pairs


def split() -> Arrays:
    """Return grey images (N, 8, 8) of 0..255 and labels; the test part is a random fifth of each
    class, always the same."""
    # read as a file, since importing scikit-learn takes a second
    path = metadata.distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    table = np.loadtxt(str(path), dtype=int, delimiter=",")
    images, labels = (
        ((table[:, :-1].reshape(-1, 8, 8) * 255 + 8) // 16).astype(np.uint8),
        table[:, -1],
    )
    draw = rng.numpy_generator(0, "digits split").random(len(labels))
    test = np.zeros(len(labels), bool)
    for label in range(10):
        (members,) = np.nonzero(labels == label)
        test[members[np.argsort(draw[members])[: round(len(members) / 5)]]] = True
    return images[~test], labels[~test], images[test], labels[test]


def read(raw: Path, options: Frozen) -> Arrays:
    """Return images with every pixel doubled, (N, 1, 16, 16)."""
    train_x, train_y, test_x, test_y = split()
    double = [x.repeat(2, axis=1).repeat(2, axis=2)[:, None] for x in (train_x, test_x)]
    return double[0], train_y, double[1], test_y


def read_tinted(raw: Path, options: Frozen) -> Arrays:
    train_x, train_y, test_x, test_y = read(raw, options)
    return _tint(train_x, "digits_rgb train"), train_y, _tint(test_x, "digits_rgb test"), test_y


def _tint(grey: np.ndarray, purpose: str) -> np.ndarray:
    """Colour images (N, 1, H, W): paper 0..99, ink 156..255 in each of 3 channels. Integers, so
    that no rounding varies."""
    draw = rng.numpy_generator(0, purpose).random((2, len(grey), 3, 1, 1))
    paper, ink = (draw[0] * 100).astype(int), 156 + (draw[1] * 100).astype(int)
    level = grey.astype(int)
    return ((paper * (255 - level) + ink * level + 127) // 255).astype(np.uint8)


def read_pairs(raw: Path, options: Frozen) -> Arrays:
    """Return pairs; those of the training part are made of training digits only, test pairs of test
    digits only."""
    train_x, train_y, test_x, test_y = split()
    train = _pairs(train_x, train_y, TRAIN_PER_CLASS, "digits_100 train")
    return *train, *_pairs(test_x, test_y, TEST_PER_CLASS, "digits_100 test")


def _pairs(
    images: np.ndarray, labels: np.ndarray, per_class: int, purpose: str
) -> tuple[np.ndarray, np.ndarray]:
    """Make pairs of digits (N, 8, 8): images (100 * per_class, 1, 16, 16) and numbers, which count
    up to 99 again and again."""
    numbers = np.tile(np.arange(100), per_class)
    draw = rng.numpy_generator(0, purpose).random((2, len(numbers)))
    members = [np.flatnonzero(labels == digit) for digit in range(10)]
    halves: list[np.ndarray] = []
    for chosen, draws in ((numbers // 10, draw[0]), (numbers % 10, draw[1])):
        halves.append(
            images[
                [
                    members[digit][int(u * len(members[digit]))]
                    for digit, u in zip(chosen, draws, strict=True)
                ]
            ]
        )
    return np.concatenate(halves, axis=2).repeat(2, axis=1)[:, None], numbers


SOURCES = {
    "digits": DataSource(
        title="scikit-learn digits",
        about="1,797 handwritten digits that scikit-learn includes, so that no network is needed: "
        "8x8, 16 grey levels. Every pixel is doubled to give (N, 1, 16, 16).",
        source="scikit-learn",
        contents=Contents((1, 16, 16), 1438, 359, tuple("0123456789")),
        pixels="bd553bbf58fd8b619e27dd9168c504d110c5dd1bc5b1add33103479cf40d8222",
        read=read,
    ),
    "digits_rgb": DataSource(
        title="scikit-learn digits, tinted",
        about="scikit-learn's digits in colour, (N, 3, 16, 16): light ink on dark paper, drawn "
        "for each image. For the quick scale.",
        source="scikit-learn",
        contents=Contents((3, 16, 16), 1438, 359, tuple("0123456789")),
        pixels="e347ec0926c65e43e5ca7b4f3c6633b252f35c2b10f4bb694aa088cbf659f488",
        read=read_tinted,
    ),
    "digits_100": DataSource(
        title="scikit-learn digits in pairs",
        about="Pairs of scikit-learn's digits side by side, (N, 1, 16, 16): the classes are the "
        "numbers 00 to 99. For the quick scale.",
        source="scikit-learn",
        contents=Contents((1, 16, 16), 6000, 1500, tuple(f"{number:02d}" for number in range(100))),
        pixels="345a8a0bd36db1e4f70a76e3ac8614304e88dda23a275c0fcefc5f871f0e363f",
        read=read_pairs,
    ),
}
