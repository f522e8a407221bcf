"""The MedMNIST files: one npz for each set and size, with the parts train, val and test. Yang et al. 2023, https://medmnist.com."""

from pathlib import Path

import numpy as np

from fedrepro.core.errors import UserError
from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, npz

RECORD = "https://zenodo.org/records/10519652/files"


def file(name: str, md5: str) -> File:
    """One of the release's files."""
    return File(name, (f"{RECORD}/{name}?download=1",), md5)


def grey(path: Path, size: int) -> Arrays:
    """The training part is the release's train and val together; images (N, 1, size, size). Raises UserError."""
    parts = ("train", "val", "test")
    x = npz(path, [(f"{part}_images", f"{part}_x") for part in parts])
    y = [labels.reshape(-1) for labels in npz(path, [(f"{part}_labels", f"{part}_y") for part in parts])]
    for images in x:
        if images.shape[1:] != (size, size):
            raise UserError(f"{path}: expected images of {size}x{size}, found {images.shape}")
    return np.concatenate(x[:2])[:, None], np.concatenate(y[:2]), x[2][:, None], y[2]
