"""scikit-learn's digits in colour, (N, 3, 16, 16): light ink on dark paper, drawn for each image. For the quick scale."""

from pathlib import Path

import numpy as np

from fedrepro.core import rng
from fedrepro.data.datasets import digits
from fedrepro.data.datasets._formats import Arrays

TITLE = "scikit-learn digits, tinted"
SOURCE = "scikit-learn"
EXTENT = ((3, 16, 16), 1438, 359)
CLASSES = digits.CLASSES
PIXELS = "e347ec0926c65e43e5ca7b4f3c6633b252f35c2b10f4bb694aa088cbf659f488"
FILES = ()
MIRROR = ()


def _tint(grey: np.ndarray, purpose: str) -> np.ndarray:
    """Colour images (N, 1, H, W): paper 0..99, ink 156..255 in each of 3 channels. Integers, so that no rounding varies."""
    draw = rng.numpy_generator(0, purpose).random((2, len(grey), 3, 1, 1))
    paper, ink = (draw[0] * 100).astype(int), 156 + (draw[1] * 100).astype(int)
    level = grey.astype(int)
    return ((paper * (255 - level) + ink * level + 127) // 255).astype(np.uint8)


def read(raw: Path) -> Arrays:
    train_x, train_y, test_x, test_y = digits.read(raw)
    return _tint(train_x, "digits_rgb train"), train_y, _tint(test_x, "digits_rgb test"), test_y
