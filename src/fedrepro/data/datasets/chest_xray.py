"""Chest X-rays of children (Kermany et al. 2018), resized to grey (1, size, size); the user unpacks Kaggle's archive.

The training part is the release's train and val together (val has 16 images). With `pooled` a random 15 % of each class of all
the release's parts together are the test part, as in FedMAX (Chen et al. 2020).
"""

from pathlib import Path

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets._image_folders import decode_parts, draw_test_part, folder_images, raise_faults

TITLE = "Chest X-Ray Images (Pneumonia)"
CLASSES = ("normal", "pneumonia")
PIXELS = None
FILES = ()
MIRROR = ()
TRAIN, VAL, TEST = ([f"{part}/{name}" for name in ("NORMAL", "PNEUMONIA")] for part in ("train", "val", "test"))
FOLDERS = (*TRAIN, *TEST)
HOW = (
    "Kaggle asks for an account: download https://www.kaggle.com/datasets/paultimothymooney/chest-xray-pneumonia, unzip it, "
    "and put its chest_xray folder (with train/ and test/ in it) there or below the data mirror"
)


class Params(Frozen):
    size: Count = 64  # pixels, of height and of width
    pooled: bool = False


def extent(params: Params) -> tuple[tuple[int, int, int], int, int]:
    """Return the extent of the release, including val."""
    train, test = (4979, 877) if params.pooled else (5232, 624)
    return (1, params.size, params.size), train, test


def read(raw: Path, params: Params) -> Arrays:
    faults: list[str] = []
    paths: list[Path] = []
    classes: list[np.ndarray] = []
    for part in (TRAIN, VAL, TEST) if any((raw / folder).is_dir() for folder in VAL) else (TRAIN, TEST):
        images, labels_of_part = folder_images([raw / folder for folder in part], faults)
        paths += images
        classes.append(labels_of_part)
    raise_faults(faults)
    labels = np.concatenate(classes)
    test = np.arange(len(labels)) >= len(labels) - len(classes[-1])
    test = draw_test_part(labels, 0.15, "chest_xray split") if params.pooled else test
    return decode_parts(paths, labels, test, params.size, "L")
