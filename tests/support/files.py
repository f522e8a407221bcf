"""Raw files of data sets, small and made, as their mirrors have them."""

import gzip
import hashlib
import io
import json
import pickle
import struct
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.config import registry
from fedrepro.data import datasets
from fedrepro.data.datasets import _prepared

IMAGES = "train-images-idx3-ubyte.gz"
CIFAR10_ARCHIVE = "cifar-10-python.tar.gz"
CIFAR10_PATHS = datasets.SOURCES["cifar10"].mirror[1]  # of the batches, the test part the last


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.name.endswith(".part")]


def damage(data: bytes) -> bytes:
    return data[: len(data) // 2]


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        bytes((0, 0, 8, array.ndim))
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(np.uint8).tobytes()
    )


def mnist_files(train: int = 20, test: int = 10, labels: int = 10) -> dict[str, bytes]:
    draw = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", train), ("t10k", test)):
        arrays[f"{part}-images-idx3-ubyte.gz"] = draw.integers(0, 256, (count, 28, 28))
        arrays[f"{part}-labels-idx1-ubyte.gz"] = np.arange(count) % labels
    return {name: gzip.compress(idx_bytes(array), mtime=0) for name, array in arrays.items()}


def write_all(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def cifar_batch(count: int, key: bytes = b"labels", classes: int = 10) -> dict:
    images = np.random.default_rng(count).integers(0, 256, (count, 3072)).astype(np.uint8)
    return {b"data": images, key: [k % classes for k in range(count)]}


def cifar10_files(protocol: int = 4) -> dict[str, bytes]:
    """The batches by their paths in the archive."""
    return {
        path: pickle.dumps(cifar_batch(4 + k), protocol) for k, path in enumerate(CIFAR10_PATHS)
    }


def change_source(monkeypatch, name: str, **changes: Any) -> None:
    """Let a data set declare something else."""
    monkeypatch.setitem(datasets.SOURCES, name, replace(datasets.SOURCES[name], **changes))


def tar_gz(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)


def declare(mirror: Path, name: str = "mnist") -> str:
    """Have a mirror's folder declare what its files of a data set decode to. Return the
    checksum."""
    with tempfile.TemporaryDirectory() as folder:
        fetched = datasets.fetch(name, Path(folder), str(mirror))
        arrays = datasets.SOURCES[name].read(fetched, registry.parse_options("datasets", name))
    pixels = _prepared.pixels_digest(
        tuple(array if array.ndim == 4 else array.astype(np.int64) for array in arrays)
    )
    path = mirror / "release.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(
        json.dumps(known | {datasets.key(name): {"release": "mirror", "pixels": pixels}}),
        encoding="utf-8",
    )
    return pixels
