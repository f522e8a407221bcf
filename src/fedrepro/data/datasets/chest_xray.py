"""Chest X-rays of children (Kermany et al. 2018), resized to grey (1, size, size); the user unpacks Kaggle's archive.

The training part is the release's train and val together (val has 16 images). `pooled`: all of the release's parts together, of
which a random 15 % of each class are the test part, as in FedMAX (Chen et al. 2020).
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
    """Of the release with its val."""
    return (1, params.size, params.size), *((4979, 877) if params.pooled else (5232, 624))


def read(raw: Path, params: Params) -> Arrays:
    faults: list[str] = []
    there = (TRAIN, VAL, TEST) if all((raw / part).is_dir() for part in VAL) else (TRAIN, TEST)
    found = [folder_images([raw / part for part in folders], faults) for folders in there]
    raise_faults(faults)
    paths, labels = [path for part, _ in found for path in part], np.concatenate([classes for _, classes in found])
    test = np.arange(len(labels)) >= len(labels) - len(found[-1][1])
    test = draw_test_part(labels, 0.15, "chest_xray split") if params.pooled else test
    return decode_parts(paths, labels, test, params.size, "L")
