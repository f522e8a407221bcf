"""Shards of single classes (Chen et al. 2020, code for EMNIST letters, "FEMNIST*").

The images of a class are first cut into pieces of `size`. A client draws `classes_per_client`
classes and a piece of each, and a second piece of some of them until it has `pieces`: 20 classes
and 26 pieces of 48 are its 1248 images. Clients draw from all pieces, so that they share images,
and some images are unused. The code does so for its IID setting too.
"""

import numpy as np

from fedrepro.config.types import Count
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients
from fedrepro.data.partitions.base import sampled_test_parts as split_test

__all__ = ["Params", "check", "split", "split_test"]


class Params(Clients):
    classes_per_client: Count = 20
    pieces: Count = 26
    size: Count = 48  # images in a piece


def check(params: Params, images: int, classes: int) -> None:
    if params.classes_per_client > classes:
        raise UserError(
            f"partition class_shards: classes_per_client: at most {classes} (got "
            f"{params.classes_per_client})"
        )
    least, most = params.classes_per_client, 2 * params.classes_per_client
    if not least <= params.pieces <= most:
        raise UserError(
            f"partition class_shards: pieces: expected {least} to {most}, one or two of each "
            f"class (got {params.pieces})"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    pieces = [
        _pieces(draw.permutation(np.flatnonzero(train.labels == label)), params.size)
        for label in range(train.classes)
    ]
    _check_pieces(params, [len(own) for own in pieces if own])
    labels = [label for label, own in enumerate(pieces) if own]
    return [_draw(params, pieces, labels, draw) for _ in range(params.clients)]


def _pieces(images: np.ndarray, size: int) -> list[np.ndarray]:
    """Return the pieces of full size; the rest is unused."""
    return [images[start : start + size] for start in range(0, len(images) - size + 1, size)]


def _check_pieces(params: Params, counts: list[int]) -> None:
    """Raise UserError if classes have too few pieces; `counts` are the pieces of each class that
    has any."""
    if params.classes_per_client > len(counts):
        problem = f"{len(counts)} classes have {params.size} images"
        raise UserError(
            f"partition class_shards: classes_per_client: {problem} (got "
            f"{params.classes_per_client})"
        )
    if params.pieces > params.classes_per_client and min(counts) < 2:
        raise UserError(
            f"partition class_shards: size: a class has no two pieces of {params.size} images; "
            f"lower it"
        )


def _draw(
    params: Params, pieces: list[list[np.ndarray]], labels: list[int], draw: np.random.Generator
) -> np.ndarray:
    drawn: list[np.ndarray] = []
    for position, label in enumerate(draw.choice(labels, params.classes_per_client, replace=False)):
        count = 2 if position < params.pieces - params.classes_per_client else 1
        drawn += [
            pieces[label][piece] for piece in draw.choice(len(pieces[label]), count, replace=False)
        ]
    return np.concatenate(drawn)
