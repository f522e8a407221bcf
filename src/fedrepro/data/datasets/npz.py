"""Images of your own, in one .npz file with the arrays train_x, train_y, test_x and test_y.

Images are uint8 (N, C, H, W), grey ones also (N, H, W), or float32 inputs, which need `pixel_scaling: raw`. Labels are (N,)
from 0, with an image of each class. The arrays train_owner and test_owner, (N,) from 0 without gaps, say whose an image is, for
the partition `natural`; class_names, (classes,) of text, names the classes, which may then lack images. Others are refused.
"""

import functools
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedrepro.config.types import MAX_FILE, Frozen, InputFile, read_input
from fedrepro.core.errors import UserError
from fedrepro.data.datasets import _prepared
from fedrepro.data.datasets._formats import Arrays, npz_file

TITLE = "{file[path]}"
PIXELS, FILES, MIRROR = None, (), ()
NAMES = "class_names"


class Params(Frozen):
    file: InputFile


class Extent(NamedTuple):
    """What planning needs to know of a file."""

    shape: tuple[int, int, int]
    train: int
    test: int
    classes: tuple[str, ...]
    real: bool
    devices: bool


def place(params: Params) -> Path:
    return Path(params.file.path)


def extent(params: Params) -> tuple[tuple[int, int, int], int, int]:
    return _extent(params.file.path, params.file.sha256)[:3]


def classes(params: Params) -> tuple[str, ...]:
    return _extent(params.file.path, params.file.sha256).classes


def real(params: Params) -> bool:
    return _extent(params.file.path, params.file.sha256).real


def devices(params: Params) -> bool:
    return _extent(params.file.path, params.file.sha256).devices


@functools.lru_cache(maxsize=64)
def _extent(path: str, digest: str) -> Extent:
    arrays, names = _load(path, digest)
    train_x, train_y, _, test_y = arrays[:4]
    return Extent(train_x.shape[1:], len(train_y), len(test_y), names, train_x.dtype != np.uint8, len(arrays) > 4)


def read(raw: Path, params: Params) -> Arrays:
    return _load(params.file.path, params.file.sha256)[0]


def _load(path: str, digest: str) -> tuple[Arrays, tuple[str, ...]]:
    """Return the arrays and the names of the classes. Raises UserError, which names the file, if they are no data set."""
    with npz_file(path, io.BytesIO(read_input(path, digest)), MAX_FILE) as file:
        keys = _prepared.KEYS[: 6 if set(_prepared.KEYS[4:]) & set(file) else 4]
        if missing := [name for name in keys if name not in file]:
            there = ", ".join(file) or "nothing"
            raise UserError(f"{path}: {missing[0]}: no such array. Save {', '.join(keys)} (got {there})")
        if unknown := sorted(set(file) - {*keys, NAMES}):
            known = ", ".join([*_prepared.KEYS, NAMES])
            raise UserError(f"{path}: {unknown[0]}: unknown array. Leave it out, or choose its name from {known}")
        arrays = tuple(_with_channels(file[name]) if name in _prepared.IMAGES else file[name] for name in keys)
        names = file.get(NAMES)
    real = arrays[0].dtype == np.float32
    if names is None:
        names = np.arange(_prepared.count_classes(path, arrays[1], arrays[3])).astype(str)
    elif names.ndim != 1 or names.dtype.kind != "U" or len(set(names)) < len(names):
        raise UserError(f"{path}: {NAMES}: {names.dtype} {names.shape}, expected (classes,) different texts")
    names = tuple(map(str, names))
    _prepared.check(path, arrays, len(names), real, arrays[0].shape[1:])
    return arrays, names


def _with_channels(images: np.ndarray) -> np.ndarray:
    return images[:, None] if images.ndim == 3 else images
