"""Folders of pictures, decoded by Pillow, which is imported where it is used. All raise UserError that names the files.

Resizing is bilinear, without regard to the aspect ratio: another version of Pillow may give other pixels, hence another
identity.
"""

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.core import rng
from fedrepro.core.errors import FEW, UserError
from fedrepro.data.datasets._formats import Arrays, reading

SUFFIXES = (".jpeg", ".jpg", ".png")
TWELVE_BITS = 4095  # the largest value of many X-ray detectors, stored in 16 bits


def folder_images(folders: Sequence[Path], faults: list[str]) -> tuple[list[Path], np.ndarray]:
    """List the pictures of class folders: folder i holds those of class i. Append to `faults` the folders that have none.

    Returns paths in the order of class, then file name, and classes (N,).
    """
    found = [_pictures_in(folder) for folder in folders]
    faults += [f"{folder}: no .jpeg, .jpg or .png in it" for folder, paths in zip(folders, found, strict=True) if not paths]
    return [path for paths in found for path in paths], np.repeat(range(len(found)), [len(paths) for paths in found])


def table_images(
    table: Path, columns: tuple[str, str], folder: Path, classes: int, faults: list[str]
) -> tuple[list[Path], np.ndarray]:
    """List the pictures that a .csv table names, without suffix, and grades. Append to `faults` what is wrong with it.

    Returns paths in the table's order, each once, and classes (N,).
    """
    grades: dict[str, str] = {}
    try:
        with reading(table), table.open(encoding="utf-8-sig", newline="") as file:  # with Excel's byte order mark or without
            rows = [row for row in csv.DictReader(file) if any(row.values())]
    except UserError as error:
        faults.append(str(error))
        return [], np.empty(0, int)
    if missing := [column for column in columns if column not in (rows[0] if rows else columns)] or not rows:
        faults.append(f"{table}: {f'no column {missing[0]}' if rows else 'no rows'}")
        rows = []
    there = {path.stem: path for path in _pictures_in(folder)}
    for name, grade in ((row[columns[0]], row[columns[1]]) for row in rows):
        if name not in there:
            faults.append(f"{folder}: no picture {name}, which {table} lists")
        elif grade not in map(str, range(classes)):
            faults.append(f"{table}: {name}: expected a class 0 to {classes - 1} (got {grade})")
        elif grades.setdefault(name, grade) != grade:
            faults.append(f"{table}: {name}: listed as class {grades[name]} and as class {grade}")
    return [there[name] for name in grades], np.array([int(grade) for grade in grades.values()], int)


def _pictures_in(folder: Path) -> list[Path]:
    """List the pictures in a folder by name; if it has none, those in a folder of the same name in it, as in Kaggle's archives.
    Names that begin with a dot are a file manager's notes."""
    for place in (folder, folder / folder.name):
        paths = place.iterdir() if place.is_dir() else ()
        if found := sorted(path for path in paths if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")):
            return found
    return []


def raise_faults(faults: Sequence[str]) -> None:
    """Raises UserError with the first few faults and their number, if there are any."""
    if faults:
        more = f"; and {len(faults) - FEW} more" if len(faults) > FEW else ""
        raise UserError("; ".join(faults[:FEW]) + more)


def decode_parts(
    paths: Sequence[Path], labels: np.ndarray, test: np.ndarray, size: int, mode: str, cut: Callable[[Any], Any] = lambda x: x
) -> Arrays:
    """Decode pictures into the training and the test part of a data set; `test` (N,) says which are in the latter.

    A picture is decoded in Pillow's `mode` ("L": grey, "RGB"), then `cut`, then resized: images (N, 1 or 3, size, size) uint8.
    Both parts are views of one array: the pictures of a large set fit into memory once, not twice.
    """
    from PIL import Image  # not part of the training core

    order, train = np.argsort(test, kind="stable"), int((~test).sum())
    images, faults = np.empty((len(paths), len(mode), size, size), np.uint8), []
    for place, path in enumerate(paths[number] for number in order):
        try:
            with reading(path), Image.open(path) as image:
                smaller = cut(_to_8_bits(image, path).convert(mode)).resize((size, size), Image.Resampling.BILINEAR)
                images[place] = np.asarray(smaller).reshape(size, size, len(mode)).transpose(2, 0, 1)
        except UserError as error:
            faults.append(str(error))
    raise_faults(faults)
    return images[:train], labels[order[:train]], images[train:], labels[order[train:]]


def _to_8_bits(image: Any, path: Path) -> Any:
    """Scale grey values of 16 bits to 8, which Pillow would cut off at 255. Raises UserError where their range is ambiguous."""
    from PIL import Image

    if image.mode[0] not in "IF":
        return image
    values = np.asarray(image)
    if image.mode == "F" or not TWELVE_BITS < values.max() < 1 << 16 or values.min() < 0:
        found = f"{values.min()} to {values.max()}"
        raise UserError(f"{path}: grey values from {found}, of which the range is not known; save the picture with 8 bits")
    return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))


def draw_test_part(labels: np.ndarray, share: float, purpose: str) -> np.ndarray:
    """A random `share` of each class, rounded down, drawn once and for all: (N,) whether an image is a test image. Raises
    UserError if there is none."""
    draw = rng.numpy_generator(0, purpose)
    test = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        test[members[: int(share * len(members))]] = True
    if not test.any():
        raise UserError(f"no class has the {math.ceil(1 / share)} images of which one is a test image")
    return test
