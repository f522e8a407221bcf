"""Data sets: one small module each, from official files or a mirror to checked uint8 arrays.

A module declares TITLE, EXTENT (image shape, train and test images), CLASSES (their names), PIXELS (the checksum of the
official release's arrays, None where nobody here could compute it), FILES (the official files), MIRROR (layouts of paths
below a mirror) and `read(raw)`, which returns train_x, train_y, test_x, test_y: images (N, C, H, W) uint8, labels (N,) from
0. `raw` is the set's own folder of raw files.
A set of class folders that the user unpacks declares FOLDERS, OPTIONAL and HOW to get them instead of files.

What a run used is its data's `identity`: the checksum of the pixels; only where the official pixels are not pinned and
the official files were used, the digest of those files' checksums, so that it is known before anything is downloaded.
"""

import hashlib
import logging
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from fedrepro import registry
from fedrepro.datasets import _fetch
from fedrepro.datasets._formats import Arrays, reading
from fedrepro.errors import UserError

log = logging.getLogger(__name__)

KEYS = ("train_x", "train_y", "test_x", "test_y")
ARRAYS, META = "arrays.npz", "meta.json"


@dataclass(frozen=True)
class Labelled:
    """What a partition sees of the train or the test images."""

    labels: np.ndarray  # (N,) int64 in 0..classes-1
    classes: int


@dataclass(frozen=True)
class Dataset:
    """Images (N, C, H, W) uint8, labels (N,) int64 in 0..classes-1, and what `prepare` wrote down about them."""

    name: str
    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    classes: int
    meta: dict[str, Any] = field(repr=False)


def fetch(name: str, raw: Path, mirror: str | None = None) -> Path:
    """Brings the raw files to `raw/<name>` and returns that folder; does nothing where they are complete.

    `mirror` is a folder or URL. Raises UserError.
    """
    module, folder = registry.module("datasets", name), raw / name
    _fetch.bring(module, folder, mirror)
    return folder


def prepare(name: str, raw: Path, out: Path) -> dict[str, Any]:
    """Writes `out/arrays.npz` and, last, `out/meta.json`, and returns the latter. Same data, same bytes. Raises UserError."""
    module, folder = registry.module("datasets", name), raw / name
    stamp = _fetch.verified_stamp(folder)
    arrays = module.read(folder)
    _check(name, folder, arrays, len(module.CLASSES))
    arrays = tuple(np.ascontiguousarray(a, t) for a, t in zip(arrays, (np.uint8, np.int64) * 2, strict=True))
    meta = _meta(name, module, stamp, arrays)
    with _fetch.writing(out):
        _write(out, arrays, meta)
    return meta


def load(out: Path) -> Dataset:
    """What `prepare` wrote to `out`. Raises UserError where it is missing or damaged."""
    meta = _fetch.read_json(out / META)
    if meta is None:
        raise UserError(f"{out / META}: not there; prepare the data set first")
    with reading(out / ARRAYS, "delete it and prepare the data set again"), np.load(out / ARRAYS, allow_pickle=False) as file:
        arrays = {key: torch.from_numpy(file[key]) for key in KEYS}
    return Dataset(meta["name"], **arrays, classes=meta["classes"], meta=meta)


def identify(name: str, raw: Path, prepared: Path, mirror: str | None = None) -> str:
    """The identity of the data that `prepare` into `prepared` wrote or will write.

    Without prepared data and without a mirror it is the pinned one, and nothing is downloaded; with a mirror the data
    are fetched and prepared, since only their pixels can tell. Raises UserError.
    """
    module = registry.module("datasets", name)
    if (meta := _fetch.read_json(prepared / META)) is not None:
        return meta["identity"]
    if (not mirror or not module.FILES) and (pinned := module.PIXELS or _files_digest(module)):
        return pinned
    fetch(name, raw, mirror)
    return prepare(name, raw, prepared)["identity"]


def extent(name: str) -> tuple[tuple[int, int, int], int, int]:
    """Image shape (C, H, W), number of train and of test images: known before anything is fetched."""
    return registry.module("datasets", name).EXTENT


def describe(meta: dict[str, Any]) -> str:
    """One honest phrase for artifacts: which data these are and whether they are the official release."""
    notes = {
        "scikit-learn": "quick scale stand-in",
        "folder": "user's copy, not checked against the official release",
        "mirror": "mirror; differs from the official release",
    }
    official = meta["official"] and meta["source"] != "scikit-learn"
    return f"{meta['title']} ({'official release' if official else notes[meta['source']]})"


def _files_digest(module: ModuleType) -> str | None:
    lines = "".join(f"{file.name} {file.md5}\n" for file in module.FILES)
    return hashlib.sha256(lines.encode()).hexdigest() if lines else None


def _pixels(arrays: Arrays) -> str:
    """sha256 over name, type, shape and bytes of the four arrays."""
    digest = hashlib.sha256()
    for key, array in zip(KEYS, arrays, strict=True):
        digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array)
    return digest.hexdigest()


def _check(name: str, folder: Path, arrays: Arrays, classes: int) -> None:
    for part, x, y in (("train", *arrays[:2]), ("test", *arrays[2:])):
        where = f"{folder}: {name}, {part} part"
        if len(x) != len(y) or len(x) == 0:
            raise UserError(f"{where}: {len(x)} images but {len(y)} labels; delete {folder} and fetch the data set again")
        if x.ndim != 4 or x.dtype != np.uint8 or x.shape[1:] != arrays[0].shape[1:]:
            raise UserError(f"{where}: images {x.dtype} {x.shape}; delete {folder} and fetch the data set again")
        if y.ndim != 1 or y.min() < 0 or y.max() >= classes:
            found = f"labels {y.min()}..{y.max()}, expected 0..{classes - 1}"
            raise UserError(f"{where}: {found}; delete {folder} and fetch the data set again")


def _meta(name: str, module: ModuleType, stamp: dict, arrays: Arrays) -> dict[str, Any]:
    pixels, official_files = _pixels(arrays), _fetch.has_official_files(module, stamp)
    if module.PIXELS and pixels != module.PIXELS and stamp["source"] != "mirror":
        log.warning("%s: decoded to other pixels here than those pinned in %s; its identity is theirs", name, module.__name__)
    mean, std = _moments(arrays[0])
    return {
        "name": name,
        "title": module.TITLE,
        "classes": len(module.CLASSES),
        "class_names": list(module.CLASSES),
        "shape": list(arrays[0].shape[1:]),
        "train": len(arrays[1]),
        "test": len(arrays[3]),
        "pixels": pixels,
        "identity": _files_digest(module) if module.PIXELS is None and official_files else pixels,
        "official": official_files or pixels == module.PIXELS,
        "source": stamp["source"],
        "mean": mean,
        "std": std,
    }


def _moments(images: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel of images / 255, exact: from the counts of the 256 values."""
    values = np.arange(256) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        share = np.bincount(images[:, channel].ravel(), minlength=256) / images[:, channel].size
        means.append(float(share @ values))
        stds.append(float(np.sqrt(share @ (values - means[-1]) ** 2)))
    return means, stds


def _write(out: Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True, exist_ok=True)
        np.savez(part / ARRAYS, **dict(zip(KEYS, arrays, strict=True)))
        out.mkdir(exist_ok=True)
        (out / META).unlink(missing_ok=True)  # never new arrays beside an old description
        os.replace(part / ARRAYS, out / ARRAYS)
        _fetch.write_json(out / META, meta)
    finally:
        shutil.rmtree(part, ignore_errors=True)
