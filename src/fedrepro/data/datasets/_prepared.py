"""Folder of a prepared data set: `arrays.npz` with the arrays by name, `meta.json` with their
description and checksums."""

import itertools
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
CHUNK = 1 << 18  # pixels counted at a time: `bincount` needs eight bytes for each
REQUIRED_KEYS = (
    *(
        "name",
        "title",
        "classes",
        "class_names",
        "shape",
        "pixels",
        "arrays",
        "identity",
        "official",
        "source",
        "mean",
        "std",
    ),
)
PREPARE_AGAIN = "delete the folder and prepare the data set again"


def read(out: Path, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description and the named arrays; owners only if the set has them. Raises
    UserError if an array is not as it was written."""
    meta = read_meta(out)
    with reading(out / ARRAYS, PREPARE_AGAIN), np.load(out / ARRAYS, allow_pickle=False) as file:
        arrays = {name: file[name] for name in names if name in KEYS[:4] or name in file}
    if changed := [
        name
        for name, array in arrays.items()
        if meta["arrays"].get(name) != array_digest(name, array)
    ]:
        raise UserError(
            f"{out / ARRAYS}: {', '.join(changed)}: not what {META} says was prepared; "
            f"{PREPARE_AGAIN}"
        )
    return meta, arrays


def read_meta(out: Path) -> dict[str, Any]:
    """Return the description that `write` wrote. Raises UserError if it is missing or damaged."""
    meta = files.read_json(out / META, *REQUIRED_KEYS, advice=PREPARE_AGAIN)
    if meta is None:
        raise UserError(f"{out / META}: not there; prepare the data set first")
    return meta


def pixels_digest(arrays: Arrays) -> str:
    """Return the sha256 over name, type, shape and bytes of the arrays."""
    parts = [_hashed_parts(name, array) for name, array in zip(KEYS, arrays, strict=False)]
    return files.sha256(*itertools.chain.from_iterable(parts))


def array_digest(name: str, array: np.ndarray) -> str:
    """Return the sha256 over name, type, shape and bytes of one array."""
    return files.sha256(*_hashed_parts(name, array))


def _hashed_parts(name: str, array: np.ndarray) -> tuple[str, memoryview]:
    return f"{name} {array.dtype.str} {array.shape}\n", np.ascontiguousarray(array).data.cast("B")


def check(
    where: str, arrays: Arrays, classes: int, real: bool, shape: tuple[int, int, int]
) -> None:
    """Raise UserError unless arrays that were read are a data set with images of the declared
    shape."""
    if len(arrays) not in (4, 6) or not all(isinstance(array, np.ndarray) for array in arrays):
        raise UserError(f"{where}: read: expected 4 arrays, or 6 with owners: {', '.join(KEYS)}")
    kind = np.dtype(np.float32 if real else np.uint8)
    for part, x, y, owner in (
        ("train", *arrays[:2], arrays[4:5]),
        ("test", *arrays[2:4], arrays[5:6]),
    ):
        problem = None
        if x.ndim != 4 or x.dtype != kind:
            problem = f"images {x.dtype} {x.shape}, expected (N, C, H, W) {kind}"
        elif x.shape[1:] != shape:
            problem = f"images {x.shape[1:]}, declared as {shape}"
        elif y.ndim != 1 or y.dtype.kind not in "iu":
            problem = f"labels {y.dtype} {y.shape}, expected (N,) whole numbers"
        elif len(x) != len(y):
            problem = f"{len(x)} images but {len(y)} labels"
        elif x.size == 0:
            problem = f"no images, or none with pixels: {x.shape}"
        elif y.min() < 0 or y.max() >= classes:
            problem = f"labels {y.min()}..{y.max()}, expected 0..{classes - 1}"
        elif real and not np.isfinite(x).all():
            problem = "not all numbers are finite"
        elif any(owners.shape != y.shape or owners.dtype.kind not in "iu" for owners in owner):
            problem = f"{len(x)} images but {len(*owner)} owners, expected (N,) whole numbers"
        elif any(owners.min() < 0 or owners.max() >= len(np.unique(arrays[4])) for owners in owner):
            problem = "owners: expected 0, 1, 2 and so on without gaps, each with training images"
        if problem:
            raise UserError(f"{where}, {part} part: {problem}")


def count_classes(where: str, *labels: np.ndarray) -> int:
    """Return the number of classes. Raises UserError if one has no image, as where labels start
    from 1."""
    used = np.unique(
        np.concatenate(
            [np.ravel(part) if part.dtype.kind in "iu" else np.zeros(1, int) for part in labels]
        )
    )
    gaps = np.flatnonzero(used != np.arange(len(used)))
    if len(gaps):
        raise UserError(
            f"{where}: labels: none is {gaps[0]}, but one is {used[gaps[0]]}. Count classes from "
            f"0, without gaps."
        )
    return len(used)


def moments(images: np.ndarray) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel. Real numbers are taken as they are;
    pixels are divided by 255, and the result is exact, from the counts of the 256 values."""
    if images.dtype != np.uint8:
        return images.mean((0, 2, 3), dtype=np.float64).tolist(), images.std(
            (0, 2, 3), dtype=np.float64
        ).tolist()
    values, step = np.arange(256) / 255, max(1, CHUNK // images[0, 0].size)
    means: list[float] = []
    stds: list[float] = []
    for channel in range(images.shape[1]):
        chunks = (
            images[start : start + step, channel].ravel() for start in range(0, len(images), step)
        )
        share = sum(np.bincount(chunk, minlength=256) for chunk in chunks) / images[:, channel].size
        means.append(float(share @ values))
        stds.append(float(np.sqrt(share @ (values - means[-1]) ** 2)))
    return means, stds


def write(out: Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Write the arrays, then the description, so that new arrays never have an old description.
    Remove what a killed process left."""
    part = out.with_name(f".{out.name}.part")
    with files.single_process(out.with_name(f".{out.name}.lock")):
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
