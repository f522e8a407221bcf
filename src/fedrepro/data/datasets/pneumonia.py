"""PneumoniaMNIST: chest X-rays of children, 5,232 + 624, grey (1, 28, 28). Yang et al. 2023, https://medmnist.com.

The training part is the release's train (4,708) and val (524) together, as many images as the original has for training.
`chest_xray` has the same images in any size.
"""

from pathlib import Path

import numpy as np

from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, npz

TITLE = "PneumoniaMNIST"
EXTENT = ((1, 28, 28), 5232, 624)
CLASSES = ("normal", "pneumonia")
PIXELS = None
ARCHIVE = "pneumoniamnist.npz"
URL = f"https://zenodo.org/records/10519652/files/{ARCHIVE}?download=1"
FILES = (File(ARCHIVE, (URL,), "28209eda62fecd6e6a2d98b1501bb15f"),)
MIRROR = ((f"pneumonia28/{ARCHIVE}",),)


def read(raw: Path) -> Arrays:
    parts = ("train", "val", "test")
    x = npz(raw / ARCHIVE, [(f"{part}_images", f"{part}_x") for part in parts])
    y = [labels.reshape(-1) for labels in npz(raw / ARCHIVE, [(f"{part}_labels", f"{part}_y") for part in parts])]
    return np.concatenate(x[:2])[:, None], np.concatenate(y[:2]), x[2][:, None], y[2]
