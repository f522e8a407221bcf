"""Pictures of your own, in a folder for each class: `train/CLASS/` and `test/CLASS/` in `path`, or `CLASS/`.

In the second case a random `test` share of each class is the test part, always the same. Classes, and pictures of a class, are
in the order of their names, in which numbers count as numbers: 2 comes before 10. Pictures are turned upright, laid on white
where they are transparent, and resized to (channels, size, size). What would not be read is refused, e.g. a folder `val`.
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedrepro.config.types import Count, Frozen, Number
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets._image_folders import SUFFIXES, decode_parts, draw_test_part, folder_images, raise_faults

TITLE = "{path}"
PIXELS, FILES, MIRROR = None, (), ()
MODES = {1: "L", 3: "RGB"}
NUMBER = re.compile(r"(^-?\d+(?:\.\d+)?$|\d+)")  # a whole name, which may have a sign and decimals, or digits in it


class Params(Frozen):
    path: str
    size: Count = 32  # pixels, of height and of width
    channels: Literal[1, 3] = 3  # 1: grey
    test: Annotated[float, Field(gt=0, lt=1), Number] = 0.2  # share of each class, without a folder of test pictures


class Listing(NamedTuple):
    """The pictures, their classes (N,), whether each is in the test part (N,), and the names of the classes."""

    paths: Sequence[Path]
    labels: np.ndarray
    test: np.ndarray
    names: tuple[str, ...]


def place(params: Params) -> Path:
    return _folder(params.path)


def extent(params: Params) -> tuple[tuple[int, int, int], int, int]:
    test = _listing(params.path, params.test).test
    return (params.channels, params.size, params.size), int((~test).sum()), int(test.sum())


def classes(params: Params) -> tuple[str, ...]:
    return _listing(params.path, params.test).names


def read(raw: Path, params: Params) -> Arrays:
    _listing.cache_clear()  # pictures may have come since the work was planned
    paths, labels, test, _ = _listing(params.path, params.test)
    return decode_parts(paths, labels, test, params.size, MODES[params.channels])


def _folder(path: str) -> Path:
    """Return the folder of a path. Raises DataUnavailable if there is none."""
    if not Path(path).is_dir():
        raise DataUnavailable(f"dataset folders: path: {path}: no such folder. Put the pictures there, or give another path")
    return Path(path)


@functools.lru_cache(maxsize=64)
def _listing(path: str, test_share: float) -> Listing:
    """List the pictures. Raises UserError for empty classes, for classes that differ between train and test, and for anything
    that would not be read."""
    top, faults = _folder(path), list[str]()
    found = _subfolders(top)
    split = any(_subfolders(top / name) for name in found)
    if split and sorted(map(str.lower, found)) != ["test", "train"]:
        raise UserError(
            f"{top}: expected train and test, with a folder for each class, or a folder of pictures for each class (got "
            f"{', '.join(found)}, with folders in them). Move the pictures of other parts, such as val, into train or test"
        )
    parts = sorted((top / name for name in found), key=lambda part: part.name.lower(), reverse=True) if split else [top]
    names = _subfolders(parts[0])
    if len(names) < 2 or any(_subfolders(part) != names for part in parts):
        got = "; ".join(f"{part}: {', '.join(_subfolders(part)) or 'none'}" for part in parts)
        raise UserError(f"{top}: expected folders of two classes or more, the same in train and test (got {got})")
    loose = [path for part in dict.fromkeys([top, *parts]) for path in sorted(part.glob("[!.]*"))]
    if stray := [path for path in loose if path.suffix.lower() in SUFFIXES and not path.is_dir()]:
        raise UserError(f"{stray[0].parent}: {len(stray)} pictures outside of the class folders, e.g. {stray[0].name}")
    listed = [folder_images([part / name for name in names], faults, lambda path: natural(path.name)) for part in parts]
    raise_faults(faults)
    labels = np.concatenate([classes for _, classes in listed])
    test = np.arange(len(labels)) >= len(listed[0][1]) if split else draw_test_part(labels, test_share, "folders split")
    return Listing([path for paths, _ in listed for path in paths], labels, test, tuple(names))


def _subfolders(folder: Path) -> list[str]:
    return sorted((path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")), key=natural)


def natural(name: str) -> tuple[list[str | float], str]:
    """Return the key by which names are in order if numbers in them count as numbers."""
    return [float(part) if place % 2 else part for place, part in enumerate(NUMBER.split(name))], name
