"""Every client has a random mixture of classes (Chen et al. 2020, code, medical sets, "randomly assign different proportions").

A client fills its total class by class: of each but the last it takes a random number, from none to all that it still lacks,
and of the last the rest; where a class has run out, the first ones that are left serve. Later clients so get what earlier ones
left, and many have one class alone. The order of the classes is that of the data.

totals  balanced: equal totals, the code's.
        unbalanced: totals in the proportions of random cuts of the whole (a uniform draw from the simplex), at least one image.
"""

from typing import Literal

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.data.datasets.base import LabelledSubset


class Params(Frozen):
    clients: Count
    totals: Literal["balanced", "unbalanced"] = "balanced"


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    stock = [draw.permutation(np.flatnonzero(train.labels == label)) for label in range(train.classes)]
    left = np.array([len(images) for images in stock])
    parts = []
    for total in _totals(params, left.sum(), draw):
        taken = _fill(total, left, draw)
        parts.append(np.concatenate([images[len(images) - have : len(images) - have + count]
                                     for images, have, count in zip(stock, left, taken, strict=True)]))  # fmt: skip
        left = left - taken
    return parts


def _totals(params: Params, images: int, draw: np.random.Generator) -> np.ndarray:
    """(clients,) whole numbers that sum to all images."""
    if params.totals == "balanced":
        return np.array([len(part) for part in np.array_split(np.arange(images), params.clients)])
    spare = images - params.clients  # everybody has one
    ends = np.round(np.cumsum(draw.dirichlet(np.ones(params.clients))) * spare).astype(int)
    return 1 + np.diff(ends, prepend=0)


def _fill(total: int, left: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """How many images of each class a client takes of those that are left, (classes,)."""
    taken = np.zeros_like(left)
    for label in range(len(left) - 1):
        taken[label] = min(draw.integers(0, total - taken.sum(), endpoint=True), left[label])
    for label in (len(left) - 1, *range(len(left) - 1)):
        taken[label] += min(total - taken.sum(), left[label] - taken[label])
    return taken
