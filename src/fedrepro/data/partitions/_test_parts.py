"""Test parts that match clients' training parts, for use as a partition module's `split_test`."""

import numpy as np

from fedrepro.config.types import Frozen
from fedrepro.data.datasets.base import LabelledSubset


def disjoint_test_parts(
    params: Frozen, parts: list[np.ndarray], train: LabelledSubset, test: LabelledSubset, draw: np.random.Generator
) -> list[np.ndarray]:
    """Split the test images of each class in proportion to the clients' training images of it, for disjoint training parts. The
    parts are disjoint, and contain all test images of the classes that clients have."""
    counts = _counts(parts, train)
    chunks: list[list[np.ndarray]] = [[] for _ in parts]
    for label in range(train.classes):
        if counts[:, label].sum() == 0:
            continue
        images = draw.permutation(np.flatnonzero(test.labels == label))
        ends = np.round(np.cumsum(counts[:, label]) / counts[:, label].sum() * len(images)).astype(int)
        for own, chunk in zip(chunks, np.split(images, ends[:-1]), strict=True):
            own.append(chunk)
    return [np.concatenate(own) for own in chunks]


def sampled_test_parts(
    params: Frozen, parts: list[np.ndarray], train: LabelledSubset, test: LabelledSubset, draw: np.random.Generator
) -> list[np.ndarray]:
    """Draw for each client an equal share of the test set in the class proportions of its training part.

    Clients draw from the whole test set, for training parts that overlap. If it has too few images of a class, the proportions
    stay and the part is smaller.
    """
    members = [np.flatnonzero(test.labels == label) for label in range(train.classes)]
    available, size = np.array([len(images) for images in members]), len(test.labels) // len(parts)
    wanted = [_round_counts(np.where(available > 0, counts, 0), available, size) for counts in _counts(parts, train)]
    tests: list[np.ndarray] = []
    for row in wanted:
        chosen = [draw.choice(images, count, replace=False) for images, count in zip(members, row, strict=True)]
        tests.append(np.concatenate(chosen))
    return tests


def _counts(parts: list[np.ndarray], train: LabelledSubset) -> np.ndarray:
    """Return the number of training images by part and class, (parts, classes)."""
    return np.stack([np.bincount(train.labels[part], minlength=train.classes) for part in parts])


def _round_counts(counts: np.ndarray, available: np.ndarray, size: int) -> np.ndarray:
    """Return images of each class, (classes,), at most `size` in total and in the proportions of `counts`. What rounding down
    leaves goes to the largest remainders."""
    if (total := counts.sum()) == 0:
        return counts
    present = counts > 0
    size = min(size, (available[present] * total // counts[present]).min())
    images, remainders = np.divmod(counts * size, total)
    images[np.argsort(-remainders, kind="stable")[: size - images.sum()]] += 1
    return images
