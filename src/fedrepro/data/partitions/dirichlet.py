"""Dirichlet by client (Hsu et al. 2019): client k draws class shares q_k ~ Dir(alpha * prior), then
its images accordingly.

`overlap: false` draws from the images that are left, each at most once. `overlap: true` draws each
client's images from the whole set, as the FedCL authors' code does, so that clients share training
and test images. `prior: unit` means alpha for each class, as in that code; `prior: classes` alpha
times the class frequencies, as in Hsu et al. `alpha: uniform` is the limit of large alpha: every
client draws in the proportions of the prior.
"""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from fedrepro.config.types import LARGEST, Positive
from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients, disjoint_test_parts, sampled_test_parts

UNIFORM = "uniform"


def _alpha(value: Any) -> Any:
    try:
        return value if value == UNIFORM else TypeAdapter(Positive).validate_python(value)
    except ValidationError:
        raise ValueError(
            f"expected a number above 0 and at most {LARGEST[float]:g}, or '{UNIFORM}'"
        ) from None


class Params(Clients):
    alpha: Annotated[float | Literal["uniform"], BeforeValidator(_alpha)]
    prior: Literal["unit", "classes"] = "unit"
    overlap: bool = False


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    labels, classes = train.labels, train.classes
    size = len(labels) // params.clients
    frequencies = np.bincount(labels, minlength=classes) / len(labels)
    prior = np.ones(classes) if params.prior == "unit" else frequencies
    present = frequencies > 0
    concentration = prior if params.alpha == UNIFORM else params.alpha * prior
    stock = [list(draw.permutation(np.flatnonzero(labels == label))) for label in range(classes)]
    parts = []
    for _ in range(params.clients):
        shares = np.zeros(classes)
        drawn = concentration[present]
        shares[present] = drawn / drawn.sum() if params.alpha == UNIFORM else draw.dirichlet(drawn)
        if params.overlap:
            parts.append(_draw_overlapping(shares, size, stock, draw))
        else:
            parts.append(draw_remaining(shares, concentration, size, stock, draw))
    return parts


def split_test(params: Params, *arguments) -> list[np.ndarray]:
    return (sampled_test_parts if params.overlap else disjoint_test_parts)(params, *arguments)


def _draw_overlapping(
    shares: np.ndarray, size: int, stock: list[list[int]], draw: np.random.Generator
) -> np.ndarray:
    wanted = np.minimum(np.floor(size * shares).astype(int), [len(images) for images in stock])
    chosen = [
        draw.choice(images, count, replace=False)
        for images, count in zip(stock, wanted, strict=True)
        if count
    ]
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)


def draw_remaining(
    shares: np.ndarray,
    concentration: np.ndarray,
    size: int,
    stock: list[list[int]],
    draw: np.random.Generator,
) -> np.ndarray:
    """Draw `size` images from those that are left in `stock`, and remove them. The share of a class
    without images goes to the others. If all of the client's classes are used up, new shares are
    drawn over the classes that are left."""
    chosen: list[int] = []
    while len(chosen) < size:
        left = np.array([len(images) for images in stock])
        odds = np.where(left > 0, shares, 0.0)
        if odds.sum() == 0:
            shares = np.zeros(len(left))
            shares[left > 0] = draw.dirichlet(concentration[left > 0])
            odds = shares
        wanted = np.minimum(draw.multinomial(size - len(chosen), odds / odds.sum()), left)
        for images, count in zip(stock, wanted, strict=True):
            chosen.extend(images.pop() for _ in range(count))
    return np.array(chosen)
