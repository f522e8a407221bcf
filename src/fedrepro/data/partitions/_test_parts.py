"""Which test images go with a client's train images: what a partition's module may name as its `split_test`."""

import numpy as np

from fedrepro.config.types import Frozen
from fedrepro.data.datasets.base import LabelledSubset


def disjoint_test_parts(
    params: Frozen, parts: list[np.ndarray], train: LabelledSubset, test: LabelledSubset, draw: np.random.Generator
) -> list[np.ndarray]:
    """For disjoint parts: the test images of each class are dealt out in proportion to the train images of it; disjoint, and
    covering where the class is held by anyone."""
    counts = _counts(parts, train)
    found: list[list[np.ndarray]] = [[] for _ in parts]
    for label in range(train.classes):
        if counts[:, label].sum() == 0:
            continue
        images = draw.permutation(np.flatnonzero(test.labels == label))
        ends = np.round(np.cumsum(counts[:, label]) / counts[:, label].sum() * len(images)).astype(int)
        for part, chunk in zip(found, np.split(images, ends[:-1]), strict=True):
            part.append(chunk)
    return [np.concatenate(part) for part in found]


def sampled_test_parts(
    params: Frozen, parts: list[np.ndarray], train: LabelledSubset, test: LabelledSubset, draw: np.random.Generator
) -> list[np.ndarray]:
    """For parts that overlap: each client's own draw from the whole test set, an equal share of it in the proportions of the
    client's train part. Where the test set has too few images of a class, the proportions stay and the part is smaller."""
    stock = [np.flatnonzero(test.labels == label) for label in range(train.classes)]
    there, size = np.array([len(images) for images in stock]), len(test.labels) // len(parts)
    wanted = [_round_counts(np.where(there > 0, counts, 0), there, size) for counts in _counts(parts, train)]
    return [
        np.concatenate([draw.choice(images, count, replace=False) for images, count in zip(stock, row, strict=True)])
        for row in wanted
    ]


def _counts(parts: list[np.ndarray], train: LabelledSubset) -> np.ndarray:
    """(parts, classes) train images."""
    return np.stack([np.bincount(train.labels[part], minlength=train.classes) for part in parts])


def _round_counts(counts: np.ndarray, there: np.ndarray, size: int) -> np.ndarray:
    """At most `size` images in the proportions of `counts` and at most as many as are `there`: (classes,) whole numbers, what
    rounding down leaves over going to the largest remainders."""
    if (total := counts.sum()) == 0:
        return counts
    held = counts > 0
    size = min(size, (there[held] * total // counts[held]).min())
    images, remainders = np.divmod(counts * size, total)
    images[np.argsort(-remainders, kind="stable")[: size - images.sum()]] += 1
    return images
