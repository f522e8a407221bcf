"""Data sets: one small module each, from official files, a mirror or a draw to checked arrays.

A module declares TITLE, EXTENT (image shape, train and test images), CLASSES (their names), PIXELS (the checksum of the
official release's arrays, None where nobody here could compute it), FILES (the official files), MIRROR (layouts of paths
below a mirror) and `read(raw)`, which returns train_x, train_y, test_x, test_y: images (N, C, H, W) uint8, or float32 where
it declares `REAL = True`; labels (N,) from 0. `raw` is the set's folder of raw files: its own, or that of the set that it is
a part of, its ORIGIN.
A set of class folders that the user unpacks declares FOLDERS and HOW to get them instead of files; one that needs
no official files has FILES = () and reads what the user put into data/raw/<name>/, if anything; it may say where that comes
from: SOURCE. A set with options declares frozen `Params` and takes them: `read(raw, params)`, and `extent(params)` instead of
EXTENT; its TITLE may name them in braces. A set that is drawn may declare CHECKSUMS, options -> the checksum of the arrays, so
that their runs are found before anything is drawn. Where images belong to devices, it declares `DEVICES = True`, and `read`
returns train_owner and test_owner too, (N,) from 0.

What a run used is its data's `identity`: the checksum of the pixels; only where the official pixels are not pinned and
the official files were used, the digest of those files' checksums and the set's options, so that it is known before anything
is downloaded.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrepro.config import registry
from fedrepro.config.types import Choice, Frozen
from fedrepro.core import files, provenance
from fedrepro.core.errors import UserError
from fedrepro.data.datasets import _fetch, _prepared, _release
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets._prepared import META

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelledSubset:
    """What a partition sees of the train or the test images."""

    labels: np.ndarray  # (N,) int64 in 0..classes-1
    classes: int
    owners: np.ndarray | None = None  # (N,) int64: the device that each image comes from

    def select(self, index: np.ndarray) -> LabelledSubset:
        """Of the images `index`."""
        return LabelledSubset(self.labels[index], self.classes, None if self.owners is None else self.owners[index])


@dataclass(frozen=True)
class DatasetLabels:
    """A data set without its images: enough to partition it. `pixels` is H*W."""

    name: str
    train: LabelledSubset
    test: LabelledSubset
    pixels: int
    meta: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Dataset:
    """Images (N, C, H, W) uint8 or float32, labels (N,) int64 in 0..classes-1, what `prepare` wrote down about them, and the
    devices that they come from, (N,), where there are such."""

    name: str
    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    classes: int
    meta: dict[str, Any] = field(repr=False)
    train_owner: np.ndarray | None = None
    test_owner: np.ndarray | None = None

    @property
    def train(self) -> LabelledSubset:
        return LabelledSubset(self.train_y.numpy(), self.classes, self.train_owner)

    @property
    def test(self) -> LabelledSubset:
        return LabelledSubset(self.test_y.numpy(), self.classes, self.test_owner)

    @property
    def pixels(self) -> int:
        return self.train_x[0, 0].numel()


def key(choice: Choice | str) -> str:
    """The name of its folder: the data set's name, and a digest of its options where it has any."""
    name, options = Choice.model_validate(choice).name, registry.parse_options("datasets", choice).model_dump(mode="json")
    return f"{name}-{provenance.value_digest(options, 8)}" if options else name


def extent(choice: Choice | str) -> tuple[tuple[int, int, int], int, int]:
    """Image shape (C, H, W), number of train and of test images: known before anything is fetched."""
    module, given = _module(choice)
    return module.extent(*given) if given else module.EXTENT


def classes(choice: Choice | str) -> tuple[str, ...]:
    """The names of its classes."""
    return _module(choice)[0].CLASSES


def is_real(choice: Choice | str) -> bool:
    """Whether its inputs are real numbers; else they are pixels, 0..255."""
    return getattr(_module(choice)[0], "REAL", False)


def has_devices(choice: Choice | str) -> bool:
    """Whether it says which device an image comes from."""
    return getattr(_module(choice)[0], "DEVICES", False)


def _module(choice: Choice | str) -> tuple[ModuleType, tuple[Frozen, ...]]:
    """The module and what its functions take beside their own: the options, where it has any."""
    module = registry.find("datasets", Choice.model_validate(choice).name)
    return module, (registry.parse_options("datasets", choice),) if hasattr(module, "Params") else ()


def origin(choice: Choice | str) -> str:
    """The name of the data set whose raw files it reads: its own, or that of the one that it is a part of."""
    return getattr(_module(choice)[0], "ORIGIN", Choice.model_validate(choice).name)


def has_files(choice: Choice | str) -> bool:
    """Return whether it is read from files that are downloaded or the user's; else it comes with a library or is drawn."""
    module = registry.find("datasets", origin(choice))
    return bool(module.FILES or _fetch.folders(module))


def fetch(choice: Choice | str, raw: Path, mirror: str | None = None) -> Path:
    """Bring the raw files to `raw/<origin>` unless they are complete. Return that folder.

    `mirror` is a folder or URL. Raises UserError.
    """
    name = origin(choice)
    _fetch.fetch_raw(registry.find("datasets", name), raw / name, mirror)
    return raw / name


def prepare(choice: Choice | str, raw: Path, out: Path) -> dict[str, Any]:
    """Write `out/arrays.npz` and, last, `out/meta.json`, and return the latter. Same data, same bytes. Raises UserError, also
    for a mirror's copy that is not what the mirror declares."""
    module, given = _module(choice)
    folder = raw / origin(choice)
    stamp = _fetch.verified_stamp(folder)
    source = _fetch.files_folder(folder, stamp)
    try:
        with _fetch.user_errors(source):
            arrays = module.read(source, *given)
        _prepared.check(f"{source}: {folder.name}", arrays, len(module.CLASSES), is_real(choice), extent(choice)[0])
        _check_counts(choice, arrays)
    except UserError as error:
        where = "" if str(source) in str(error) else f"{source}: "
        raise UserError(f"{where}{error}; {_fetch.discard(folder, stamp)}") from None
    arrays = tuple(np.ascontiguousarray(a, a.dtype if a.ndim == 4 else np.int64) for a in arrays)
    meta = _meta(choice, stamp, arrays)
    if problem := _release.check_declared(key(choice), meta, stamp):
        _fetch.delete_stamp(folder)
        raise UserError(problem)
    with _fetch.user_errors(out):
        _prepared.write(out, arrays, meta)
    return meta


def _check_counts(choice: Choice | str, arrays: Arrays) -> None:
    """Compare the numbers of images with those declared, by which plans and settings go. A copy of a release may differ, with
    a warning. Raises UserError for a set that is neither fetched nor unpacked."""
    (module, _), (_, *declared) = _module(choice), extent(choice)
    found = [len(arrays[1]), len(arrays[3])]
    if found != declared:
        told = f"{module.__name__}: {found} train and test images, declared as {declared}"
        if not module.FILES and not hasattr(module, "FOLDERS"):
            raise UserError(told)
        log.warning("%s", told)


def provide(choice: Choice | str, raw: Path, out: Path, mirror: str | None = None) -> None:
    """Fetch and prepare what is missing; prepare again what other code made of the raw files. One process at a time. Raises
    UserError."""
    if (out / META).exists() and not _outdated(choice, raw, out):
        return
    with _fetch.user_errors(raw), files.single_process(raw / f".{key(choice)}.provide.lock"):
        if not (out / META).exists():
            fetch(choice, raw, mirror)
            prepare(choice, raw, out)
        elif _outdated(choice, raw, out):
            if _fetch.has_changed(raw / origin(choice)):
                (raw / origin(choice) / _fetch.STAMP).unlink()
                fetch(choice, raw, mirror)
            prepare(choice, raw, out)


def load(out: Path) -> Dataset:
    """What `prepare` wrote to `out`. Raises UserError where it is missing or damaged."""
    import torch  # what only partitions data reads the labels and needs none

    files.check_regular(out / _prepared.ARRAYS, _prepared.PREPARE_AGAIN)
    meta, arrays = _prepared.read(out, _prepared.KEYS)
    owners = {name: arrays.pop(name) for name in _prepared.KEYS[4:] if name in arrays}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Dataset(meta["name"], **tensors, classes=meta["classes"], meta=meta, **owners)


def labels(out: Path) -> DatasetLabels:
    """The labels of what `prepare` wrote to `out`. Raises UserError where it is missing or damaged."""
    files.check_regular(out / _prepared.ARRAYS, _prepared.PREPARE_AGAIN)
    meta, arrays = _prepared.read(out, tuple(name for name in _prepared.KEYS if name not in _prepared.IMAGES))
    parts = (LabelledSubset(arrays[f"{part}_y"], meta["classes"], arrays.get(f"{part}_owner")) for part in ("train", "test"))
    return DatasetLabels(meta["name"], *parts, math.prod(meta["shape"][1:]), meta)


def identify(choice: Choice | str, raw: Path, prepared: Path, mirror: str | None = None) -> str:
    """The identity of the data that `prepare` into `prepared` wrote or will write.

    Where only the data can tell it (`is_identified`), they are read or drawn, and prepared. Raises UserError.
    """
    if not is_identified(choice, raw, prepared, mirror):
        provide(choice, raw, prepared, mirror)
    return planned_identity(choice, raw, prepared, mirror) or pinned(choice)


def is_identified(choice: Choice | str, raw: Path, prepared: Path, mirror: str | None = None) -> bool:
    """Whether the identity is known before anything is prepared, and is not that of outdated data."""
    found = planned_identity(choice, raw, prepared, mirror) or pinned(choice)
    return found is not None and not _outdated(choice, raw, prepared)


def planned_identity(choice: Choice | str, raw: Path, prepared: Path, mirror: str | None = None) -> str | None:
    """The identity of what is prepared, else as the mirror declares it, else the pinned one: nothing is fetched or prepared.
    None where that cannot be told."""
    if (meta := files.read_json(prepared / META, "identity", advice=_prepared.PREPARE_AGAIN)) is not None:
        return meta["identity"]
    releases = _release.declared(raw, mirror) if mirror and _module(choice)[0].FILES else {}
    if releases is None:
        return None
    return releases[key(choice)].pixels if key(choice) in releases else pinned(choice)


def check_available(choice: Choice | str, raw: Path, mirror: str | None = None) -> None:
    """Raise Unavailable or UserError for raw files that this machine can tell are nowhere. Fetches nothing."""
    name = origin(choice)
    _fetch.check_available(registry.find("datasets", name), raw / name, mirror)


def _outdated(choice: Choice | str, raw: Path, prepared: Path) -> bool:
    """Whether other code than today's read or drew what is prepared (where that is written down), or a user's own files are
    others by now, and it can be made anew: its raw files lie here, and so may the new ones."""
    meta = files.read_json(prepared / META, advice=_prepared.PREPARE_AGAIN) or {}
    if meta.get("code", reader_digest(choice)) == reader_digest(choice) and not _fetch.has_changed(raw / origin(choice)):
        return False
    return (raw / origin(choice) / _fetch.STAMP).exists() and os.access(prepared, os.W_OK)


def reader_digest(choice: Choice | str) -> str:
    """A digest of the code that reads or draws it."""
    return provenance.dataset_digest(Choice.model_validate(choice).name)


def is_copy(prepared: Path) -> bool:
    """Whether what lies there came from a mirror, and is not the official release."""
    meta = files.read_json(prepared / META, "source", "official", advice=_prepared.PREPARE_AGAIN)
    return bool(meta) and meta["source"] == "mirror" and not meta["official"]


def pinned(choice: Choice | str) -> str | None:
    """The identity of the official release, or of what is drawn, where it is declared."""
    module, given = _module(choice)
    return module.PIXELS or getattr(module, "CHECKSUMS", {}).get(*given, None) or _files_digest(choice)


def _files_digest(choice: Choice | str) -> str | None:
    """Of the official files and, where the set has options, of what was asked of them; None without files."""
    module, given = _module(choice)
    lines = "".join(f"{file.name} {file.md5}\n" for file in module.FILES)
    lines += "".join(f"{params.model_dump_json()}\n" for params in given)
    return hashlib.sha256(lines.encode()).hexdigest() if module.FILES else None


def _meta(choice: Choice | str, stamp: dict, arrays: Arrays) -> dict[str, Any]:
    (module, _), name = _module(choice), Choice.model_validate(choice).name
    pixels, official_files = _prepared.pixels_digest(arrays), _fetch.has_official_files(module, stamp)
    if module.PIXELS and pixels != module.PIXELS and stamp["source"] != "mirror":
        log.warning("%s: decoded to other pixels here than those pinned in %s; its identity is theirs", name, module.__name__)
    mean, std = _prepared.moments(arrays[0])
    return {
        "name": name,
        "title": module.TITLE.format(**registry.parse_options("datasets", choice).model_dump()),
        "classes": len(module.CLASSES),
        "class_names": list(module.CLASSES),
        "shape": list(arrays[0].shape[1:]),
        "train": len(arrays[1]),
        "test": len(arrays[3]),
        "pixels": pixels,
        "arrays": {part: _prepared.array_digest(part, array) for part, array in zip(_prepared.KEYS, arrays, strict=False)},
        "identity": _files_digest(choice) if module.PIXELS is None and official_files else pixels,
        "official": official_files or pixels == module.PIXELS,
        "source": stamp["source"],
        "release": stamp.get("releases", {}).get(key(choice), {}).get("release"),
        "code": reader_digest(choice),
        "mean": mean,
        "std": std,
    }
