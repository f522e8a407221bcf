"""Medical pictures from Kaggle, which asks for an account: the user unpacks the archives."""

from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets._image_folders import (
    decode_parts,
    draw_test_part,
    folder_images,
    join,
    table_images,
)
from fedrepro.data.datasets.source import Contents, DataSource

TRAIN, VAL, TEST = (
    [f"{part}/{name}" for name in ("NORMAL", "PNEUMONIA")] for part in ("train", "val", "test")
)
GRADES = ("none", "mild", "moderate", "severe", "proliferative")
RETINAS = {  # folder: its table, the table's columns of names and grades, its pictures
    "aptos2019": ("train.csv", ("id_code", "diagnosis"), "train_images"),
    "retinopathy": ("trainLabels.csv", ("image", "level"), "resized_train"),
}


class XrayOptions(Frozen):
    size: Count = 64  # pixels, of height and of width
    pooled: bool = False


class RetinaOptions(Frozen):
    size: Count = 256  # pixels, of height and of width


def read_xrays(raw: Path, options: XrayOptions) -> Arrays:
    faults: list[str] = []
    there = (TRAIN, VAL, TEST) if any((raw / folder).is_dir() for folder in VAL) else (TRAIN, TEST)
    parts = [folder_images([raw / folder for folder in part], faults) for part in there]
    paths, labels = join(parts, faults)
    test = np.arange(len(labels)) >= len(labels) - len(parts[-1][1])
    test = draw_test_part(labels, 0.15, "chest_xray split") if options.pooled else test
    return decode_parts(paths, labels, test, options.size, "L")


def read_retinas(raw: Path, options: RetinaOptions) -> Arrays:
    faults: list[str] = []
    listed = [
        table_images(raw / name / table, columns, raw / name / inner, len(GRADES), faults)
        for name, (table, columns, inner) in RETINAS.items()
    ]
    paths, labels = join(listed, faults)
    if missing := sorted(set(range(len(GRADES))) - set(labels.tolist())):
        raise UserError(f"{raw}: no picture of grade {missing[0]} ({GRADES[missing[0]]})")
    return decode_parts(
        paths, labels, draw_test_part(labels, 0.15, "aptos split"), options.size, "RGB", crop_to_eye
    )


def crop_to_eye(image: Any) -> Any:
    """Crop an image to the square around its centre that is as wide as the eye.

    The authors of FedMAX crop to the radius of the eye; how they find it is not known. Here the
    eye's width is the number of pixels in the middle row that are brighter than a tenth of the
    row's mean, as by the winner of the retinopathy contest of
    2015. Outside of the image the square is black. A black image stays as it is.
    """
    width, height = image.size
    row = np.asarray(image.crop((0, height // 2, width, height // 2 + 1))).sum(2, dtype=float)
    radius = int((row > row.mean() / 10).sum()) / 2
    if radius < 1:
        return image
    return image.crop(
        tuple(
            round(edge)
            for edge in (
                width / 2 - radius,
                height / 2 - radius,
                width / 2 + radius,
                height / 2 + radius,
            )
        )
    )


SOURCES = {
    "chest_xray": DataSource(
        title="Chest X-Ray Images (Pneumonia)",
        about="Chest X-rays of children (Kermany et al. 2018), resized to grey (1, size, size); "
        "the user unpacks Kaggle's archive. The training part is the release's train and val "
        "together (val has 16 images). With `pooled` a random 15 % of each class of all the "
        "release's parts together are the test part, as in FedMAX (Chen et al. 2020).",
        options=XrayOptions,
        contents=lambda options: Contents(
            (1, options.size, options.size),
            *((4979, 877) if options.pooled else (5232, 624)),
            ("normal", "pneumonia"),
        ),
        folders=(*TRAIN, *TEST),
        how="Kaggle asks for an account: download "
        "https://www.kaggle.com/datasets/paultimothymooney/chest-xray-pneumonia, unzip it, and "
        "put its chest_xray folder (with train/ and test/ in it) there or below the data mirror",
        read=read_xrays,
    ),
    "aptos": DataSource(
        title="APTOS 2019 and diabetic retinopathy (resized)",
        about="Retinas with five grades of retinopathy, two of Kaggle's sets pooled as in FedMAX "
        "(Chen et al. 2020): 38,788 "
        "colour photographs, cropped to the eye and resized to (3, size, size). The user unpacks "
        "both archives: the "
        'training part of APTOS 2019 (3,662) and "diabetic retinopathy resized" (35,126). A '
        "random 15 % of each class are "
        "the test part. The authors resize to 288, then 256 pixels.",
        options=RetinaOptions,
        contents=lambda options: Contents((3, options.size, options.size), 32973, 5815, GRADES),
        folders=tuple(
            path for name, (*_, inner) in RETINAS.items() for path in (name, f"{name}/{inner}")
        ),
        how="Kaggle asks for an account: unzip "
        "https://www.kaggle.com/competitions/aptos2019-blindness-detection/data into a folder "
        "aptos2019 (train.csv, train_images/) and "
        "https://www.kaggle.com/datasets/tanlikesmath/diabetic-retinopathy-resized into a folder "
        "retinopathy (trainLabels.csv, resized_train/), and put both into a folder aptos there or "
        "below the data mirror",
        read=read_retinas,
    ),
}
