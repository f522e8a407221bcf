"""A prepared data set's folder: `arrays.npz` with the arrays by name, `meta.json` with what they are and their checksums."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.core import files
from fedrepro.core.errors import UserError
from fedrepro.data.datasets._formats import Arrays, reading

IMAGES = ("train_x", "test_x")
KEYS = ("train_x", "train_y", "test_x", "test_y", "train_owner", "test_owner")
ARRAYS, META = "arrays.npz", "meta.json"
NEEDED = ("name", "title", "classes", "class_names", "shape", "pixels", "identity", "official", "source", "mean", "std")
ANEW = "delete the folder and prepare the data set again"


def read(out: Path, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and those of the named arrays that the set has, which are as they were written. Raises UserError."""
    meta = described(out)
    with reading(out / ARRAYS, ANEW), np.load(out / ARRAYS, allow_pickle=False) as file:
        arrays = {name: file[name] for name in names if name in KEYS[:4] or name in file}
    _compare(out, meta, arrays)
    return meta, arrays


def described(out: Path) -> dict[str, Any]:
    """What `write` wrote down about the arrays. Raises UserError."""
    meta = files.read_json(out / META, *NEEDED, advice=ANEW)
    if meta is None:
        raise UserError(f"{out / META}: not there; prepare the data set first")
    return meta


def _compare(out: Path, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Arrays with what was written down when they were made. Earlier descriptions have one checksum of all arrays."""
    if "arrays" in meta:
        changed = [name for name, array in arrays.items() if meta["arrays"].get(name) != digest(name, array)]
    else:
        whole = set(IMAGES) <= set(arrays) and pixels(tuple(arrays.values())) != meta["pixels"]
        changed = ["its arrays"] if whole else []
    if changed:
        raise UserError(f"{out / ARRAYS}: {', '.join(changed)}: not what {META} says was prepared; {ANEW}")


def pixels(arrays: Arrays) -> str:
    """sha256 over name, type, shape and bytes of the arrays."""
    named = zip(KEYS, arrays, strict=False)
    return files.digest(*(part for name, array in named for part in _told(name, array)))


def digest(name: str, array: np.ndarray) -> str:
    """The same of one array."""
    return files.digest(*_told(name, array))


def _told(name: str, array: np.ndarray) -> tuple[str, memoryview]:
    return f"{name} {array.dtype.str} {array.shape}\n", memoryview(np.ascontiguousarray(array)).cast("B")


def check(folder: Path, arrays: Arrays, classes: int, real: bool) -> None:
    """That what was read of the raw files is a data set. Raises UserError."""
    for part, x, y, owner in (("train", *arrays[:2], arrays[4:5]), ("test", *arrays[2:4], arrays[5:6])):
        where = f"{folder}: {folder.name}, {part} part"
        if len(x) != len(y) or len(x) == 0:
            raise UserError(f"{where}: {len(x)} images but {len(y)} labels; delete {folder} and fetch the data set again")
        if x.ndim != 4 or x.dtype != (np.float32 if real else np.uint8) or x.shape[1:] != arrays[0].shape[1:]:
            raise UserError(f"{where}: images {x.dtype} {x.shape}; delete {folder} and fetch the data set again")
        if y.ndim != 1 or y.min() < 0 or y.max() >= classes:
            found = f"labels {y.min()}..{y.max()}, expected 0..{classes - 1}"
            raise UserError(f"{where}: {found}; delete {folder} and fetch the data set again")
        if not np.isfinite(x).all():
            raise UserError(f"{where}: not all numbers are finite; delete {folder} and fetch the data set again")
        if any(len(owners) != len(x) for owners in owner):
            raise UserError(f"{where}: {len(x)} images but {len(*owner)} owners; delete {folder} and fetch the data set again")


def moments(images: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel: of real numbers as they are; of pixels divided by 255, and exact, from the
    counts of the 256 values."""
    if images.dtype != np.uint8:
        return tuple(getattr(images, name)((0, 2, 3), dtype=np.float64).tolist() for name in ("mean", "std"))
    values = np.arange(256) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        share = np.bincount(images[:, channel].ravel(), minlength=256) / images[:, channel].size
        means.append(float(share @ values))
        stds.append(float(np.sqrt(share @ (values - means[-1]) ** 2)))
    return means, stds


def write(out: Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    """The description last, never new arrays beside an old one. What a killed process left behind goes."""
    part = out.with_name(f".{out.name}.part")
    with files.alone(out.with_name(f".{out.name}.lock")):
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir(parents=True)
            np.savez(part / ARRAYS, **dict(zip(KEYS, arrays, strict=False)))
            out.mkdir(exist_ok=True)
            (out / META).unlink(missing_ok=True)
            os.replace(part / ARRAYS, out / ARRAYS)
            files.write_json(out / META, meta)
        finally:
            shutil.rmtree(part, ignore_errors=True)
