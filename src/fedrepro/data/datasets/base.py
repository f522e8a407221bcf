"""Data sets: reading of official files, a mirror's copies or random draws into checked arrays.

The modules of this package declare data sets in their tables `SOURCES` (`source.py` describes a
row): released files in `released.py`, archives from Kaggle in `kaggle.py`, small and drawn sets in
`digits.py` and `synthetic.py`, data of the user's own in `own.py`.

The `identity` of data is the checksum of their pixels. But if official files whose pixels are not
pinned were used, it is the digest of these files' checksums and the options, so that it is known
before anything is downloaded.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrepro.config import registry
from fedrepro.config.types import Choice, Frozen
from fedrepro.core import files, provenance
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.data.datasets import _fetch, _prepared, _release
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets._prepared import META
from fedrepro.data.datasets.source import Contents, DataSource

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelledSubset:
    """Labels of the training or of the test images, which a partition is drawn from."""

    labels: np.ndarray  # (N,) int64 in 0..classes-1
    classes: int
    owners: np.ndarray | None = None  # (N,) int64: the device of each image
    # (N,) int64: the number of each image in the whole part; None: it is the whole part
    selected: np.ndarray | None = None
    total: int | None = None  # images of the whole part, if this is a selection

    @property
    def numbers(self) -> np.ndarray:
        return np.arange(len(self.labels)) if self.selected is None else self.selected

    def select(self, index: np.ndarray) -> LabelledSubset:
        """Return the labels of the images `index`."""
        owners = None if self.owners is None else self.owners[index]
        return LabelledSubset(
            self.labels[index],
            self.classes,
            owners,
            self.numbers[index],
            self.total or len(self.labels),
        )


@dataclass(frozen=True)
class DatasetLabels:
    """A data set without its images, enough to partition it. `pixels` is H*W."""

    name: str
    train: LabelledSubset
    test: LabelledSubset
    pixels: int
    meta: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Dataset:
    """A prepared data set."""

    name: str
    train_x: torch.Tensor  # (N, C, H, W) uint8 or float32
    train_y: torch.Tensor  # (N,) int64 in 0..classes-1
    test_x: torch.Tensor
    test_y: torch.Tensor
    classes: int
    meta: dict[str, Any] = field(repr=False)  # the description that `prepare` wrote
    # (N,) the device of each image, if the data are from devices
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
    """Return the folder of a prepared data set: its name and, with options, a folder in it that is
    a digest of them."""
    name, options = Choice.model_validate(choice).name, _options(choice).model_dump(mode="json")
    return f"{name}/{provenance.value_digest(options, 8)}" if options else name


def contents(choice: Choice | str) -> Contents:
    """Return what is in a data set, as declared."""
    declared = _source(choice).contents
    return declared(_options(choice)) if callable(declared) else declared


def extent(choice: Choice | str) -> tuple[tuple[int, int, int], int, int]:
    """Return image shape (C, H, W), number of training and of test images, as declared."""
    declared = contents(choice)
    return declared.shape, declared.train, declared.test


def classes(choice: Choice | str) -> tuple[str, ...]:
    """Return the names of a data set's classes."""
    return contents(choice).classes


def _source(choice: Choice | str) -> DataSource:
    return registry.find("datasets", Choice.model_validate(choice).name)


def _options(choice: Choice | str) -> Frozen:
    return registry.parse_options("datasets", choice)


def _place(choice: Choice | str) -> Path | None:
    """Return the user's file or folder that the options of a data set name; None if they name
    none."""
    place = _source(choice).place
    return place and place(_options(choice))


def raw_folder(choice: Choice | str, raw: Path) -> Path:
    """Return the folder of a data set's raw files, or of the stamp of a file or folder that its
    options name."""
    return raw / (key(choice) if _source(choice).place else origin(choice))


def origin(choice: Choice | str) -> str:
    """Return the name of the data set whose raw files are read: its own, or that of the one of
    which it is a part."""
    return _source(choice).origin or Choice.model_validate(choice).name


def has_files(choice: Choice | str) -> bool:
    """Return whether a data set is read from files, downloaded or the user's; else it comes with a
    library or is drawn."""
    return bool(_source(choice).files or _source(choice).folders)


def fetch(choice: Choice | str, raw: Path, mirror: str | None = None) -> Path:
    """Fetch the raw files to `raw/<origin>` unless they are complete, and return that folder.

    Args:
        mirror: folder or URL to use instead of the official release.

    Raises UserError.
    """
    folder = raw_folder(choice, raw)
    _fetch.fetch_raw(_source(choice), folder, mirror, _place(choice))
    return folder


def prepare(choice: Choice | str, raw: Path, out: Path) -> dict[str, Any]:
    """Read raw files, write `out/arrays.npz` and `out/meta.json`, and return the latter. The same
    data give the same bytes. Raises UserError, also for a mirror's copy that is not what the mirror
    declares."""
    folder = raw_folder(choice, raw)
    stamp = _fetch.verified_stamp(folder)
    files_folder = _fetch.files_folder(folder, stamp)
    try:
        with _fetch.user_errors(files_folder):
            arrays = _source(choice).read(files_folder, _options(choice))
        declared = contents(choice)
        _prepared.check(
            f"{files_folder}: {folder.name}",
            arrays,
            len(declared.classes),
            declared.real,
            declared.shape,
        )
        _check_counts(choice, arrays)
    except UserError as error:
        where = "" if str(files_folder) in str(error) else f"{files_folder}: "
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
    """Compare the numbers of images with the declared ones, which planning uses. If they differ,
    log a warning for files, which may be a copy; raise UserError for a data set without files."""
    _, *declared = extent(choice)
    counts = [len(arrays[1]), len(arrays[3])]
    if counts != declared:
        message = (
            f"dataset {Choice.model_validate(choice).name}: {counts} train and test "
            f"images, declared as {declared}"
        )
        if not has_files(choice):
            raise UserError(message)
        log.warning("%s", message)


def provide(choice: Choice | str, raw: Path, out: Path, mirror: str | None = None) -> None:
    """Fetch and prepare a data set unless it is prepared, and again if it is outdated; one process
    at a time. Raises UserError."""
    _ask_mirror(choice, raw, mirror)
    if (out / META).exists() and not _outdated(choice, raw, out, mirror):
        return
    with _fetch.user_errors(raw), files.single_process(raw / f".{key(choice)}.provide.lock"):
        changed, missing = (
            _has_changed(choice, raw) or not _is_as_declared(choice, raw, out, mirror),
            not (out / META).exists(),
        )
        if changed:
            _fetch.delete_stamp(raw_folder(choice, raw))
        if changed or missing:
            fetch(choice, raw, mirror)
        if changed or missing or _outdated(choice, raw, out, mirror):
            prepare(choice, raw, out)


def load(out: Path) -> Dataset:
    """Load what `prepare` wrote to `out`. Raises UserError if it is missing or damaged."""
    import torch  # not needed to partition data, which takes their labels alone

    meta, arrays = _prepared.read(out, _prepared.KEYS)
    train_x, train_y, test_x, test_y = (
        torch.from_numpy(arrays[name]) for name in _prepared.KEYS[:4]
    )
    owners = (arrays.get(name) for name in _prepared.KEYS[4:])
    return Dataset(meta["name"], train_x, train_y, test_x, test_y, meta["classes"], meta, *owners)


def labels(out: Path) -> DatasetLabels:
    """Load the labels of what `prepare` wrote to `out`. Raises UserError if it is missing or
    damaged."""
    meta, arrays = _prepared.read(
        out, tuple(name for name in _prepared.KEYS if name not in _prepared.IMAGES)
    )
    train = LabelledSubset(arrays["train_y"], meta["classes"], arrays.get("train_owner"))
    test = LabelledSubset(arrays["test_y"], meta["classes"], arrays.get("test_owner"))
    return DatasetLabels(meta["name"], train, test, math.prod(meta["shape"][1:]), meta)


def identify(choice: Choice | str, raw: Path, prepared: Path, mirror: str | None = None) -> str:
    """Return the identity of the data that `prepare` wrote or will write to `prepared`. If only the
    data themselves tell it (see `is_identified`), they are fetched or drawn, and prepared. Raises
    UserError."""
    _ask_mirror(choice, raw, mirror)
    if not is_identified(choice, raw, prepared, mirror):
        provide(choice, raw, prepared, mirror)
    identity = planned_identity(choice, raw, prepared, mirror)
    assert identity is not None  # known before, or of what is prepared now
    return identity


def is_identified(
    choice: Choice | str, raw: Path, prepared: Path, mirror: str | None = None
) -> bool:
    """Return whether the identity is known without preparing anything, and is not that of outdated
    data."""
    known = planned_identity(choice, raw, prepared, mirror) is not None
    return known and not _outdated(choice, raw, prepared, mirror)


def planned_identity(
    choice: Choice | str, raw: Path, prepared: Path, mirror: str | None = None
) -> str | None:
    """Return the identity of what is prepared, unless the mirror declares other data, else as the
    mirror declares it, else the pinned one; None if there is none of these. Nothing is fetched or
    prepared."""
    meta = files.read_json(prepared / META, "identity", advice=_prepared.PREPARE_AGAIN)
    if meta is not None and _is_as_declared(choice, raw, prepared, mirror):
        return meta["identity"]
    releases = _release.declared(raw, mirror) if mirror and _source(choice).files else {}
    if releases is None:
        return None
    return releases[key(choice)].pixels if key(choice) in releases else pinned(choice)


def check_available(choice: Choice | str, raw: Path, mirror: str | None = None) -> None:
    """Raise DataUnavailable or UserError for missing raw files, as far as that needs no network.
    Fetches nothing."""
    if _place(choice) is None:  # which raises the error itself
        _fetch.check_available(_source(choice), raw_folder(choice, raw), mirror)


def _ask_mirror(choice: Choice | str, raw: Path, mirror: str | None) -> None:
    """Fetch what a URL declares, if that is not known."""
    if mirror and _source(choice).files and _release.declared(raw, mirror) is None:
        _fetch.ask_mirror(raw, mirror)


def _is_as_declared(choice: Choice | str, raw: Path, prepared: Path, mirror: str | None) -> bool:
    """Return whether the prepared data, else the fetched ones, are what the mirror declares today.
    True if nothing is here, or if the declaration is not known."""
    releases = _release.declared(raw, mirror) if mirror and _source(choice).files else None
    if releases is None:
        return True
    declared = releases[key(choice)].model_dump() if key(choice) in releases else None
    if meta := files.read_json(prepared / META, advice=_prepared.PREPARE_AGAIN):
        return declared == (
            meta.get("release") and {"release": meta["release"], "pixels": meta["identity"]}
        )
    stamp = files.read_json(raw_folder(choice, raw) / _fetch.STAMP)
    return stamp is None or stamp.get("releases", {}).get(key(choice)) == declared


def _outdated(choice: Choice | str, raw: Path, prepared: Path, mirror: str | None) -> bool:
    """Return whether other code read or drew the prepared data, or the user's own files have
    changed since, or the mirror declares something else; False if they cannot be prepared again,
    without raw files or in a folder that is not writable."""
    if not _is_as_declared(choice, raw, prepared, mirror):
        return True
    meta = files.read_json(prepared / META, advice=_prepared.PREPARE_AGAIN) or {}
    if meta.get("code", reader_digest(choice)) == reader_digest(choice) and not _has_changed(
        choice, raw
    ):
        return False
    return (raw_folder(choice, raw) / _fetch.STAMP).exists() and os.access(prepared, os.W_OK)


def _has_changed(choice: Choice | str, raw: Path) -> bool:
    """Return whether the user's own files have changed since they were prepared; False if they are
    not there."""
    try:
        return _fetch.has_changed(raw_folder(choice, raw), _place(choice))
    except DataUnavailable:
        return False


def reader_digest(choice: Choice | str) -> str:
    """Return the digest of the code that reads or draws a data set."""
    return provenance.dataset_digest(_source(choice).read.__module__)


def is_copy(prepared: Path) -> bool:
    """Return whether prepared data came from a mirror and are not the official release."""
    meta = files.read_json(prepared / META, "source", "official", advice=_prepared.PREPARE_AGAIN)
    return bool(meta) and meta["source"] == "mirror" and not meta["official"]


def pinned(choice: Choice | str) -> str | None:
    """Return the identity of the official release or of a draw; None if it is not declared."""
    source = _source(choice)
    return source.pixels or source.checksums.get(_options(choice)) or _files_digest(choice)


def _files_digest(choice: Choice | str) -> str | None:
    """Return the digest of the official files' checksums and the options; None without files."""
    source = _source(choice)
    lines = "".join(f"{file.name} {file.md5}\n" for file in source.files)
    lines += f"{_options(choice).model_dump_json()}\n" if source.options is not Frozen else ""
    return hashlib.sha256(lines.encode()).hexdigest() if source.files else None


def _meta(choice: Choice | str, stamp: dict, arrays: Arrays) -> dict[str, Any]:
    source, name = _source(choice), Choice.model_validate(choice).name
    pixels, official_files = (
        _prepared.pixels_digest(arrays),
        _fetch.has_official_files(source, stamp),
    )
    if source.pixels and pixels != source.pixels and stamp["source"] != "mirror":
        log.warning(
            "%s: decoded to other pixels here than the pinned ones; its identity is theirs", name
        )
    mean, std = _prepared.moments(arrays[0])
    return {
        "name": name,
        "title": source.title.format(**_options(choice).model_dump()),
        "classes": len(classes(choice)),
        "class_names": list(classes(choice)),
        "shape": list(arrays[0].shape[1:]),
        "train": len(arrays[1]),
        "test": len(arrays[3]),
        "pixels": pixels,
        "arrays": {
            part: _prepared.array_digest(part, array)
            for part, array in zip(_prepared.KEYS, arrays, strict=False)
        },
        "identity": _files_digest(choice) if source.pixels is None and official_files else pixels,
        "official": official_files or pixels == source.pixels,
        "source": stamp["source"],
        "release": stamp.get("releases", {}).get(key(choice), {}).get("release"),
        "code": reader_digest(choice),
        "mean": mean,
        "std": std,
    }
