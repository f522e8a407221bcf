"""Folders of pictures, decoded by Pillow, which is imported where it is used. All raise UserError that names the file.

Resizing is bilinear, without regard to the aspect ratio: another version of Pillow may give other pixels, hence another
identity.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.core.errors import UserError
from fedrepro.data.datasets._formats import reading

SUFFIXES = (".jpeg", ".jpg", ".png")


def class_folders(folders: Sequence[Path], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Folder i holds the images of class i: grey (N, 1, size, size) uint8, in the order of class, then file name."""
    paths, labels = [], []
    for label, folder in enumerate(folders):
        found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
        if not found:
            raise UserError(f"{folder}: no .jpeg, .jpg or .png in it; unpack the data set again")
        paths += found
        labels += [label] * len(found)
    return pictures(paths, size, "L"), np.asarray(labels)


def listed(table: Path, columns: tuple[str, str], folder: Path, classes: int) -> tuple[list[Path], np.ndarray]:
    """The pictures that a .csv table lists by name, without suffix, and by class: paths in the table's order, classes (N,)."""
    again = "unpack the data set again"
    with reading(table, again), table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or (missing := [column for column in columns if column not in rows[0]]):
        raise UserError(f"{table}: {f'no column {missing[0]}' if rows else 'no rows'}; {again}")
    there = {path.stem: path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES}
    for row in rows:
        if row[columns[0]] not in there:
            raise UserError(f"{folder}: no picture {row[columns[0]]}, which {table} lists; {again}")
        if row[columns[1]] not in map(str, range(classes)):
            raise UserError(f"{table}: {row[columns[0]]}: expected a class 0 to {classes - 1} (got {row[columns[1]]}); {again}")
    return [there[row[columns[0]]] for row in rows], np.array([int(row[columns[1]]) for row in rows])


def pictures(paths: Sequence[Path], size: int, mode: str, cut: Callable[[Any], Any] = lambda image: image) -> np.ndarray:
    """Decoded in Pillow's `mode` ("L": grey, "RGB"), then `cut`, then resized: (N, 1 or 3, size, size) uint8."""
    from PIL import Image  # not part of the training core

    found = np.empty((len(paths), size, size, len(mode)), np.uint8)
    for place, path in enumerate(paths):
        with reading(path), Image.open(path) as image:
            smaller = cut(image.convert(mode)).resize((size, size), Image.Resampling.BILINEAR)
            found[place] = np.asarray(smaller).reshape(size, size, len(mode))
    return found.transpose(0, 3, 1, 2)
