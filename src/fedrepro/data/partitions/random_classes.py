"""Random class proportions (Chen et al. 2020, code, medical sets, "randomly assign different
proportions").

A client fills its total class by class, in the order of the data: of each class but the last it
takes a random number, from none to all images that it still needs, and the rest of the last class.
If a class is used up, the first ones that are left replace it. So later clients get what earlier
ones left, and many have a single class.

totals  balanced: equal totals, as in the code.
        unbalanced: totals in the proportions of a uniform draw from the simplex, at least one
        image.
"""

from typing import Literal

import numpy as np

from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients


class Params(Clients):
    totals: Literal["balanced", "unbalanced"] = "balanced"


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    stock = [
        draw.permutation(np.flatnonzero(train.labels == label)) for label in range(train.classes)
    ]
    left = np.array([len(images) for images in stock])
    parts: list[np.ndarray] = []
    for total in _totals(params, left.sum(), draw):
        taken = _fill(total, left, draw)
        starts = [len(images) for images in stock] - left
        chunks = [
            images[start : start + count]
            for images, start, count in zip(stock, starts, taken, strict=True)
        ]
        parts.append(np.concatenate(chunks))
        left = left - taken
    return parts


def _totals(params: Params, images: int, draw: np.random.Generator) -> np.ndarray:
    """Return the number of images of each client, (clients,)."""
    if params.totals == "balanced":
        return np.array([len(part) for part in np.array_split(np.arange(images), params.clients)])
    spare = images - params.clients  # every client has one
    ends = np.round(np.cumsum(draw.dirichlet(np.ones(params.clients))) * spare).astype(int)
    return 1 + np.diff(ends, prepend=0)


def _fill(total: int, left: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return how many of the images that are `left` of each class a client takes, (classes,)."""
    taken = np.zeros_like(left)
    for label in range(len(left) - 1):
        taken[label] = min(draw.integers(0, total - taken.sum(), endpoint=True), left[label])
    for label in (len(left) - 1, *range(len(left) - 1)):
        taken[label] += min(total - taken.sum(), left[label] - taken[label])
    return taken
