"""Retinas with five grades of retinopathy, two of Kaggle's sets pooled as in FedMAX (Chen et al. 2020): 38,788 colour
photographs, cropped to the eye and resized to (3, size, size). The user unpacks both archives.

The sets are the training part of APTOS 2019 (3,662) and "diabetic retinopathy resized" (35,126). A random 15 % of each class
are the test part. The authors crop to the radius of the eye, and resize to 288, then 256 pixels. How they find the radius is
not known; here it is read off the middle row, as by the winner of the retinopathy contest of 2015.
"""

from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets._image_folders import decode_parts, draw_test_part, raise_faults, table_images

TITLE = "APTOS 2019 and diabetic retinopathy (resized)"
CLASSES = ("none", "mild", "moderate", "severe", "proliferative")
PIXELS = None
FILES = ()
MIRROR = ()
SOURCES = {  # folder: its table, the table's columns of names and grades, its pictures
    "aptos2019": ("train.csv", ("id_code", "diagnosis"), "train_images"),
    "retinopathy": ("trainLabels.csv", ("image", "level"), "resized_train"),
}
FOLDERS = tuple(path for name, (*_, inner) in SOURCES.items() for path in (name, f"{name}/{inner}"))
HOW = (
    "Kaggle asks for an account: unzip https://www.kaggle.com/competitions/aptos2019-blindness-detection/data into a folder "
    "aptos2019 (train.csv, train_images/) and https://www.kaggle.com/datasets/tanlikesmath/diabetic-retinopathy-resized into "
    "a folder retinopathy (trainLabels.csv, resized_train/), and put both into a folder aptos there or below the data mirror"
)


class Params(Frozen):
    size: Count = 256  # pixels, of height and of width


def extent(params: Params) -> tuple[tuple[int, int, int], int, int]:
    return (3, params.size, params.size), 32973, 5815


def read(raw: Path, params: Params) -> Arrays:
    paths: list[Path] = []
    grades: list[np.ndarray] = []
    faults: list[str] = []
    for name, (table, columns, inner) in SOURCES.items():
        images, classes = table_images(raw / name / table, columns, raw / name / inner, len(CLASSES), faults)
        paths += images
        grades.append(classes)
    raise_faults(faults)
    labels = np.concatenate(grades)
    if missing := sorted(set(range(len(CLASSES))) - set(labels.tolist())):
        raise UserError(f"{raw}: no picture of grade {missing[0]} ({CLASSES[missing[0]]})")
    return decode_parts(paths, labels, draw_test_part(labels, 0.15, "aptos split"), params.size, "RGB", crop_to_eye)


def crop_to_eye(image: Any) -> Any:
    """Crop an image to the square around its centre that is as wide as the eye.

    The eye's width is the number of pixels in the middle row that are brighter than a tenth of the row's mean. Outside of the
    image the square is black. A black image stays as it is.
    """
    width, height = image.size
    row = np.asarray(image.crop((0, height // 2, width, height // 2 + 1))).sum(2, dtype=float)
    radius = int((row > row.mean() / 10).sum()) / 2
    if radius < 1:
        return image
    return image.crop(tuple(round(edge) for edge in (width / 2 - radius, height / 2 - radius,
                                                     width / 2 + radius, height / 2 + radius)))  # fmt: skip
