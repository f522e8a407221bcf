"""Data of your own, which settings name: an .npz file, or folders of pictures. What would not be
read is refused."""

import functools
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedrepro.config.types import MAX_FILE, Count, Frozen, InputFile, Number, read_input
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.data.datasets import _prepared
from fedrepro.data.datasets._formats import Arrays, npz_file
from fedrepro.data.datasets._image_folders import (
    SUFFIXES,
    decode_parts,
    draw_test_part,
    folder_images,
    join,
)
from fedrepro.data.datasets.source import Contents, DataSource

NAMES = "class_names"
MODES = {1: "L", 3: "RGB"}
# a whole name, which may have a sign and decimals, or digits in it
NUMBER = re.compile(r"(^-?\d+(?:\.\d+)?$|\d+)")


class FileOptions(Frozen):
    file: InputFile


@functools.lru_cache(maxsize=64)
def _file_contents(file: InputFile) -> Contents:
    arrays, names = _load(file)
    train_x, train_y, _, test_y = arrays[:4]
    return Contents(
        train_x.shape[1:],
        len(train_y),
        len(test_y),
        names,
        train_x.dtype != np.uint8,
        len(arrays) > 4,
    )


def _load(file: InputFile) -> tuple[Arrays, tuple[str, ...]]:
    """Return the arrays and the names of the classes. Raises UserError, which names the file, if
    they are no data set."""
    with npz_file(file.path, io.BytesIO(read_input(file.path, file.sha256)), MAX_FILE) as stored:
        keys = _prepared.KEYS[: 6 if set(_prepared.KEYS[4:]) & set(stored) else 4]
        if missing := [name for name in keys if name not in stored]:
            there = ", ".join(stored) or "nothing"
            raise UserError(
                f"{file.path}: {missing[0]}: no such array. Save {', '.join(keys)} (got {there})"
            )
        if unknown := sorted(set(stored) - {*keys, NAMES}):
            known = ", ".join([*_prepared.KEYS, NAMES])
            raise UserError(
                f"{file.path}: {unknown[0]}: unknown array. Leave it out, or choose its name "
                f"from {known}"
            )
        arrays = tuple(
            _with_channels(stored[name]) if name in _prepared.IMAGES else stored[name]
            for name in keys
        )
        names = stored.get(NAMES)
    if names is None:
        names = np.arange(_prepared.count_classes(file.path, arrays[1], arrays[3])).astype(str)
    elif names.ndim != 1 or names.dtype.kind != "U" or len(set(names)) < len(names):
        raise UserError(
            f"{file.path}: {NAMES}: {names.dtype} {names.shape}, expected (classes,) different "
            f"texts"
        )
    names = tuple(map(str, names))
    _prepared.check(
        file.path, arrays, len(names), arrays[0].dtype == np.float32, arrays[0].shape[1:]
    )
    return arrays, names


def _with_channels(images: np.ndarray) -> np.ndarray:
    return images[:, None] if images.ndim == 3 else images


class FolderOptions(Frozen):
    path: str
    size: Count = 32  # pixels, of height and of width
    channels: Literal[1, 3] = 3  # 1: grey
    # share of each class, without a folder of test pictures
    test: Annotated[float, Field(gt=0, lt=1), Number] = 0.2


class Listing(NamedTuple):
    """The pictures, their classes (N,), whether each is in the test part (N,), and the names of the
    classes."""

    paths: Sequence[Path]
    labels: np.ndarray
    test: np.ndarray
    names: tuple[str, ...]


def _folder_contents(options: FolderOptions) -> Contents:
    _, _, test, names = _listing(options.path, options.test)
    return Contents(
        (options.channels, options.size, options.size), int((~test).sum()), int(test.sum()), names
    )


def read_folders(raw: Path, options: FolderOptions) -> Arrays:
    _listing.cache_clear()  # pictures may have come since the work was planned
    paths, labels, test, _ = _listing(options.path, options.test)
    return decode_parts(paths, labels, test, options.size, MODES[options.channels])


def _folder(path: str) -> Path:
    """Return the folder of a path. Raises DataUnavailable if there is none."""
    if not Path(path).is_dir():
        raise DataUnavailable(
            f"dataset folders: path: {path}: no such folder. Put the pictures there, or give "
            f"another path"
        )
    return Path(path)


@functools.lru_cache(maxsize=64)
def _listing(path: str, test_share: float) -> Listing:
    """List the pictures. Raises UserError for empty classes, for classes that differ between train
    and test, and for anything that would not be read."""
    top, faults = _folder(path), list[str]()
    found = _subfolders(top)
    split = any(_subfolders(top / name) for name in found)
    if split and sorted(map(str.lower, found)) != ["test", "train"]:
        raise UserError(
            f"{top}: expected train and test, with a folder for each class, or a folder of "
            f"pictures for each class (got {', '.join(found)}, with folders in them). Move the "
            "pictures of other parts, such as val, into train or test"
        )
    parts = (
        sorted((top / name for name in found), key=lambda part: part.name.lower(), reverse=True)
        if split
        else [top]
    )
    names = _subfolders(parts[0])
    if len(names) < 2 or any(_subfolders(part) != names for part in parts):
        got = "; ".join(f"{part}: {', '.join(_subfolders(part)) or 'none'}" for part in parts)
        raise UserError(
            f"{top}: expected folders of two classes or more, the same in train and test (got "
            f"{got})"
        )
    loose = [path for part in dict.fromkeys([top, *parts]) for path in sorted(part.glob("[!.]*"))]
    if stray := [path for path in loose if path.suffix.lower() in SUFFIXES and not path.is_dir()]:
        raise UserError(
            f"{stray[0].parent}: {len(stray)} pictures outside of the class folders, e.g. "
            f"{stray[0].name}"
        )
    listed = [
        folder_images([part / name for name in names], faults, lambda path: natural(path.name))
        for part in parts
    ]
    paths, labels = join(listed, faults)
    test = (
        np.arange(len(labels)) >= len(listed[0][1])
        if split
        else draw_test_part(labels, test_share, "folders split")
    )
    return Listing(paths, labels, test, tuple(names))


def _subfolders(folder: Path) -> list[str]:
    return sorted(
        (path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")),
        key=natural,
    )


def natural(name: str) -> tuple[list[str | float], str]:
    """Return the key by which names are in order if numbers in them count as numbers."""
    return [
        float(part) if place % 2 else part for place, part in enumerate(NUMBER.split(name))
    ], name


SOURCES = {
    "npz": DataSource(
        title="{file[path]}",
        about="Images of your own, in one .npz file with the arrays train_x, train_y, test_x and "
        "test_y. Images are uint8 (N, C, H, W), grey ones also (N, H, W), or float32 inputs, "
        "which need `pixel_scaling: raw`. Labels are (N,) from 0, with an image of each class. "
        "The arrays train_owner and test_owner, (N,) from 0 without gaps, say whose an image is, "
        "for the partition `natural`; class_names, (classes,) of text, names the classes, which "
        "may then lack images. Others are refused.",
        options=FileOptions,
        contents=lambda options: _file_contents(options.file),
        place=lambda options: Path(options.file.path),
        read=lambda raw, options: _load(options.file)[0],
    ),
    "folders": DataSource(
        title="{path}",
        about="Pictures of your own, in a folder for each class: `train/CLASS/` and `test/CLASS/` "
        "in `path`, or `CLASS/`. Without a folder `test` a share of each class is drawn as the "
        "test part. Classes, and pictures of a class, are in the order of their names, in which "
        "numbers count as numbers: 2 comes before 10. Pictures are turned upright, laid on white "
        "where they are transparent, and resized to (channels, size, size). What would not be "
        "read is refused, e.g. a folder `val`.",
        options=FolderOptions,
        contents=_folder_contents,
        place=lambda options: _folder(options.path),
        read=read_folders,
    ),
}
