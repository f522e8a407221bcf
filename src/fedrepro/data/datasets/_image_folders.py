"""Readers of folders of images, decoded by Pillow, which is imported where it is used. Their
UserErrors name the files.

Pictures are turned as their EXIF data say, and transparent ones are laid on white. Resizing is
bilinear and ignores the aspect ratio. Another version of Pillow may give other pixels, hence
another identity.
"""

import csv
import io
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.core import files, rng
from fedrepro.core.errors import MAX_LISTED, UserError
from fedrepro.data.datasets._formats import Arrays, reading

log = logging.getLogger(__name__)
SUFFIXES = (
    ".jpeg",
    ".jpg",
    ".jfif",
    ".png",
    ".bmp",
    ".tif",
    ".tiff",
    ".webp",
    ".gif",
    ".ppm",
    ".pgm",
)
# Pillow's names; others, such as EPS, start programs
FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "GIF", "PPM")
NO_PICTURES = ("thumbs.db", "desktop.ini")  # which Windows writes
MAX_TABLE = 1 << 26  # bytes: a line for each of some millions of images
TWELVE_BITS = 4095  # the largest value of many X-ray detectors, stored in 16 bits


def folder_images(
    folders: Sequence[Path], faults: list[str], order: Callable[[Path], Any] | None = None
) -> tuple[list[Path], np.ndarray]:
    """List the images of class folders; folder i has those of class i. Append folders that are
    empty or hold anything else to `faults`. Returns paths in the order of class, then of `order`,
    by default the file name, and classes (N,)."""
    paths: list[Path] = []
    counts: list[int] = []
    for folder in folders:
        images, others = _images_in(folder)
        paths += sorted(images, key=order)
        counts.append(len(images))
        if others:
            faults.append(
                f"{folder}: {len(others)} of {len(images) + len(others)} are no pictures that are "
                f"read: {_named(others)}. Put them into this folder as {', '.join(SUFFIXES)}, or "
                "move them away"
            )
        elif not images:
            faults.append(f"{folder}: no {', '.join(SUFFIXES)} in it")
    return paths, np.repeat(range(len(folders)), counts)


def _named(paths: Sequence[Path]) -> str:
    """Return the first few names."""
    return ", ".join(path.name for path in paths[:MAX_LISTED]) + ", ..." * (len(paths) > MAX_LISTED)


def table_images(
    table: Path, columns: tuple[str, str], folder: Path, classes: int, faults: list[str]
) -> tuple[list[Path], np.ndarray]:
    """List the images whose names, without suffix, and classes are in a .csv table. Append what is
    wrong with it to `faults`.

    Args:
        columns: of the name and of the class.

    Returns paths in the table's order, each once, and classes (N,).
    """
    grades: dict[str, str] = {}
    try:
        with reading(table):
            # with Excel's mark
            text = io.StringIO(
                files.read_file(table, max_bytes=MAX_TABLE).decode("utf-8-sig"), newline=""
            )
            rows = [row for row in csv.DictReader(text) if any(row.values())]
    except UserError as error:
        faults.append(str(error))
        return [], np.empty(0, int)
    if not rows:
        faults.append(f"{table}: no rows")
    elif missing := [column for column in columns if column not in rows[0]]:
        faults.append(f"{table}: no column {missing[0]}")
        rows = []
    there = _images_in(folder)[0]
    images = {path.stem: path for path in there}
    for name, grade in ((row[columns[0]], row[columns[1]]) for row in rows):
        if name not in images:
            faults.append(f"{folder}: no picture {name}, which {table} lists")
        elif grade not in map(str, range(classes)):
            faults.append(f"{table}: {name}: expected a class 0 to {classes - 1} (got {grade})")
        elif grades.setdefault(name, grade) != grade:
            faults.append(f"{table}: {name}: listed as class {grades[name]} and as class {grade}")
    if unlisted := [path for path in there if path.stem not in grades or images[path.stem] != path]:
        log.warning(
            "%s: %d of %d pictures are not used: %s",
            folder,
            len(unlisted),
            len(there),
            _named(unlisted),
        )
    return [images[name] for name in grades], np.array(
        [int(grade) for grade in grades.values()], int
    )


def _images_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """List the images in a folder by name, and what else is in it but hidden files; if there are no
    images, also those in a subfolder of the same name, as in Kaggle's archives."""
    images: list[Path] = []
    others: list[Path] = []
    for place in (folder, folder / folder.name):
        if place.is_dir() and not images:
            others = [path for path in others if path != place]
            for path in sorted(place.iterdir()):
                if not (path.name.startswith(".") or path.name.lower() in NO_PICTURES):
                    (images if path.suffix.lower() in SUFFIXES else others).append(path)
    return images, others


def join(
    parts: Sequence[tuple[list[Path], np.ndarray]], faults: Sequence[str]
) -> tuple[list[Path], np.ndarray]:
    """Return the images of all parts and their classes. Raises UserError for faults of the
    listing."""
    raise_faults(faults)
    return [path for paths, _ in parts for path in paths], np.concatenate(
        [labels for _, labels in parts]
    )


def raise_faults(faults: Sequence[str]) -> None:
    """Raise UserError with the first few faults and the number of the others, if there are any."""
    if faults:
        more = f"; and {len(faults) - MAX_LISTED} more" if len(faults) > MAX_LISTED else ""
        raise UserError("; ".join(faults[:MAX_LISTED]) + more)


def decode_parts(
    paths: Sequence[Path],
    labels: np.ndarray,
    test: np.ndarray,
    size: int,
    mode: str,
    crop: Callable[[Any], Any] = lambda x: x,
) -> Arrays:
    """Decode images into the training and the test part of a data set.

    Args:
        labels: (N,) classes.
        test: (N,) whether an image is in the test part.
        size: height and width to which images are resized, in pixels.
        mode: Pillow's, "L" for grey or "RGB".
        crop: applied before resizing.

    Returns images (N, 1 or 3, size, size) uint8 and labels (N,) of both parts, which are views of
    one array: the images of a large data set fit into memory once, not twice.
    """
    from PIL import Image  # not part of the training core

    order, train = np.argsort(test, kind="stable"), int((~test).sum())
    images = np.empty((len(paths), len(mode), size, size), np.uint8)
    faults: list[str] = []
    for position, path in enumerate(paths[number] for number in order):
        try:
            with reading(path), Image.open(path, formats=FORMATS) as image:
                resized = crop(_opaque(image, path).convert(mode)).resize(
                    (size, size), Image.Resampling.BILINEAR
                )
                images[position] = (
                    np.asarray(resized).reshape(size, size, len(mode)).transpose(2, 0, 1)
                )
        except UserError as error:
            faults.append(str(error))
    raise_faults(faults)
    return images[:train], labels[order[:train]], images[train:], labels[order[train:]]


def _opaque(image: Any, path: Path) -> Any:
    """Return a picture upright, on white where it is transparent, and with 8 bits. Raises UserError
    for several in one file."""
    from PIL import Image, ImageOps

    # a camera's MPO holds one picture in several sizes
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        raise UserError(
            f"{path}: {image.n_frames} pictures in one file; save each in a file of its own"
        )
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return _to_8_bits(image, path)


def _to_8_bits(image: Any, path: Path) -> Any:
    """Scale grey values of 16 bits to 8, which Pillow would clip at 255. Raises UserError if their
    range is ambiguous."""
    from PIL import Image

    if image.mode[0] not in "IF":
        return image
    values = np.asarray(image)
    if image.mode == "F" or not TWELVE_BITS < values.max() < 1 << 16 or values.min() < 0:
        extremes = f"{values.min()} to {values.max()}"
        raise UserError(
            f"{path}: grey values from {extremes}, of which the range is not known; save the "
            f"picture with 8 bits"
        )
    return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))


def draw_test_part(labels: np.ndarray, share: float, purpose: str) -> np.ndarray:
    """Draw a random `share` of each class, rounded down, always the same for the same `purpose`.
    Returns (N,) whether an image is in the test part. Raises UserError if none is."""
    draw = rng.numpy_generator(0, purpose)
    test = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        test[members[: int(share * len(members))]] = True
    if not test.any():
        raise UserError(
            f"no class has the {math.ceil(1 / share)} images of which one is a test image"
        )
    return test
