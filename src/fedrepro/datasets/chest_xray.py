"""Chest X-rays of children (Kermany et al. 2018), resized to grey (1, SIZE, SIZE); the user unpacks Kaggle's archive.

The training part is the release's train and val together (val has 16 images). Resizing is Pillow's, bilinear, without
regard to the aspect ratio: another version of Pillow may give other pixels, hence another identity.
"""

from pathlib import Path

import numpy as np

from fedrepro.datasets._formats import Arrays, class_folders

TITLE = "Chest X-Ray Images (Pneumonia)"
EXTENT = ((1, 64, 64), 5232, 624)
CLASSES = ("normal", "pneumonia")
PIXELS = None
FILES = ()
MIRROR = ()
SIZE = 64
TRAIN, VAL, TEST = ([f"{part}/{name}" for name in ("NORMAL", "PNEUMONIA")] for part in ("train", "val", "test"))
FOLDERS = (*TRAIN, *TEST)
OPTIONAL = tuple(VAL)
HOW = (
    "Kaggle asks for an account: download https://www.kaggle.com/datasets/paultimothymooney/chest-xray-pneumonia, unzip it, "
    "and put its chest_xray folder (with train/ and test/ in it) there or below the data mirror"
)


def read(raw: Path) -> Arrays:
    train, test = (class_folders([raw / part for part in parts], SIZE) for parts in (TRAIN, TEST))
    if all((raw / part).is_dir() for part in VAL):
        extra = class_folders([raw / part for part in VAL], SIZE)
        train = tuple(np.concatenate(pair) for pair in zip(train, extra, strict=True))
    return *train, *test
