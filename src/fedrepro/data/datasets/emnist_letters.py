"""EMNIST letters: 124,800 + 20,800 handwritten letters, both cases in one class, (1, 28, 28). Cohen et al., arXiv:1702.05373.

The release stores images transposed and labels from 1. Here images are upright, like MNIST's (torchvision leaves them
transposed), and labels start at 0. `pad` adds so many black pixels on each side: 2 in FedMAX's code.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from fedrepro.config.types import Frozen, Number
from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, idx_in_zip

TITLE = "EMNIST letters"
CLASSES = tuple("abcdefghijklmnopqrstuvwxyz")
PIXELS = None
ARCHIVE = "gzip.zip"
FILES = (File(ARCHIVE, ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",), "58c8d27c78d21e728a6bc7b3cc06412e"),)
MIRROR = ((f"emnist/{ARCHIVE}",),)


class Params(Frozen):
    pad: Annotated[int, Field(ge=0, le=28), Number] = 0


def extent(params: Params) -> tuple[tuple[int, int, int], int, int]:
    return (1, 28 + 2 * params.pad, 28 + 2 * params.pad), 124800, 20800


def read(raw: Path, params: Params) -> Arrays:
    arrays, sides = [], ((0, 0), (0, 0), (params.pad,) * 2, (params.pad,) * 2)
    for part in ("train", "test"):
        stem = f"gzip/emnist-letters-{part}"
        images = idx_in_zip(raw / ARCHIVE, f"{stem}-images-idx3-ubyte.gz", 3)[:, None].swapaxes(2, 3)
        arrays.append(np.pad(images, sides))
        arrays.append(idx_in_zip(raw / ARCHIVE, f"{stem}-labels-idx1-ubyte.gz", 1).astype(int) - 1)
    return tuple(arrays)
