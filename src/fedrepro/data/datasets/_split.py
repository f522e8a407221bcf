"""Which images of a set without a test part of its own are its test part."""

import math

import numpy as np

from fedrepro.core import rng
from fedrepro.core.errors import UserError


def held_out(labels: np.ndarray, share: float, purpose: str) -> np.ndarray:
    """A random `share` of each class, rounded down, drawn once and for all: (N,) whether an image is a test image. Raises
    UserError if there is none."""
    draw = rng.numpy_generator(0, purpose)
    test = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        test[members[: int(share * len(members))]] = True
    if not test.any():
        raise UserError(f"no class has the {math.ceil(1 / share)} images of which one is a test image")
    return test
