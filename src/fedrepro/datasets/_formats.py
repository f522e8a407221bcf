"""Readers of the file formats: IDX, CIFAR's python batches, npz, folders of images. All trust nothing and raise UserError."""

import gzip
import io
import math
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedrepro.errors import UserError

AGAIN = "delete it and fetch the data set again"
MAX_BYTES = 1 << 30  # of one decoded file: beyond any set here, below what would exhaust a laptop
TRUNCATED = (EOFError, OSError, zlib.error, tarfile.TarError, zipfile.BadZipFile, MemoryError)

Arrays = tuple[np.ndarray, ...]  # train_x, train_y, test_x, test_y, and the owners of both parts where images have such


@contextmanager
def reading(where: Path | str, advice: str = AGAIN) -> Iterator[None]:
    """Turns whatever a damaged file raises into one message."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{where}: not there; {advice.removeprefix('delete it and ')}") from None
    except Exception as error:  # decoders raise nearly anything on damaged input
        kind = "truncated or damaged" if isinstance(error, TRUNCATED) else "not in the expected format"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{where}: {kind} ({reason}); {advice}") from None


def _bounded(stream: BinaryIO, size: int, where: Path | str) -> bytes:
    """Exactly `size` bytes, to the end of the stream."""
    data = stream.read(size + 1)
    if len(data) != size:
        raise UserError(f"{where}: holds {'more' if len(data) > size else 'fewer'} bytes than its header says; {AGAIN}")
    return data


def idx(stream: BinaryIO, dims: int, where: Path | str) -> np.ndarray:
    """A uint8 IDX array of `dims` dimensions (format: http://yann.lecun.com/exdb/mnist/); sizes are big-endian 32-bit."""
    header = stream.read(4 + 4 * dims)
    if header[:4] != bytes((0, 0, 8, dims)) or len(header) < 4 + 4 * dims:
        raise UserError(f"{where}: not an IDX file of {dims}-dimensional bytes; {AGAIN}")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
    if math.prod(shape) > MAX_BYTES:
        raise UserError(f"{where}: its header claims {' x '.join(map(str, shape))} bytes, which cannot be; {AGAIN}")
    return np.frombuffer(_bounded(stream, math.prod(shape), where), np.uint8).reshape(shape)


def idx_gz(path: Path, dims: int) -> np.ndarray:
    with reading(path), gzip.open(path) as stream:
        return idx(stream, dims, path)


def idx_in_zip(path: Path, member: str, dims: int) -> np.ndarray:
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(member) as packed, gzip.open(packed) as stream:
        return idx(stream, dims, f"{path}, {member}")


def mnist_like(raw: Path) -> Arrays:
    """The four IDX files of MNIST and its relatives; images (N, 1, H, W)."""
    images = [idx_gz(raw / f"{part}-images-idx3-ubyte.gz", 3)[:, None] for part in ("train", "t10k")]
    labels = [idx_gz(raw / f"{part}-labels-idx1-ubyte.gz", 1) for part in ("train", "t10k")]
    return images[0], labels[0], images[1], labels[1]


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds numpy arrays, containers and strings; whatever else a pickle asks for is refused."""

    # asked of numpy itself, because the function's home moved from numpy.core to numpy._core
    ALLOWED = {
        ("multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # how old protocols spell bytes
    }

    def __init__(self, data: bytes, where: Path | str):
        super().__init__(io.BytesIO(data), encoding="bytes")
        self.where = where

    def find_class(self, module: str, name: str) -> Any:
        home = "multiarray" if module in ("numpy.core.multiarray", "numpy._core.multiarray") else module
        if (home, name) not in self.ALLOWED:
            raise UserError(
                f"{self.where}: its pickle asks for {module}.{name}, so it is refused; delete it, use another source"
            )
        return self.ALLOWED[home, name]


def unpickle(data: bytes, where: Path | str) -> Any:
    """A pickle of arrays and plain containers, of python 2 or 3; python 2's strings arrive as bytes."""
    with reading(where):
        return _ArraysOnly(data, where).load()


def tar_members(path: Path, names: list[str]) -> dict[str, bytes]:
    """The content of regular members by exact name, in memory: nothing is extracted, so no member can escape or be a link."""
    found = {}
    with reading(path), tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.name not in names:
                continue
            if not member.isreg() or member.size > MAX_BYTES:
                raise UserError(f"{path}: {member.name} is a link or too large, so this is not the release; {AGAIN}")
            found[member.name] = _bounded(archive.extractfile(member), member.size, path)
    if missing := [name for name in names if name not in found]:
        raise UserError(f"{path}: {missing[0]} is not in it; {AGAIN}")
    return found


def cifar(raw: Path, archive: str, folder: str, train: list[str], test: str, key: str) -> Arrays:
    """CIFAR's python batches, from the release's archive or from loose files; `key` names the labels. Images (N, 3, 32, 32)."""
    if (raw / archive).is_file():
        packed = tar_members(raw / archive, [f"{folder}/{name}" for name in [*train, test]])
        batches = {name: (packed[f"{folder}/{name}"], f"{raw / archive}, {name}") for name in [*train, test]}
    else:
        batches = {}
        for name in [*train, test]:
            with reading(raw / name):
                batches[name] = ((raw / name).read_bytes(), raw / name)
    parts = {name: _cifar_batch(data, key, where) for name, (data, where) in batches.items()}
    x, y = (np.concatenate([parts[name][i] for name in train]) for i in (0, 1))
    return x, y, *parts[test]


def _cifar_batch(data: bytes, key: str, where: Path | str) -> tuple[np.ndarray, np.ndarray]:
    record = unpickle(data, where)
    with reading(where):
        record = {k.decode() if isinstance(k, bytes) else k: v for k, v in record.items()}
        images, labels = record["data"], np.asarray(record[key])
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072) or labels.dtype.kind not in "iu":
            raise UserError(f"{where}: expected {len(labels)} x 3072 bytes, found {images.dtype} {images.shape}; {AGAIN}")
        return images.reshape(-1, 3, 32, 32), labels


def npz(path: Path, keys: list[tuple[str, ...]]) -> list[np.ndarray]:
    """Arrays of an npz file, each under the first of its possible keys. Never unpickles."""
    with reading(path), zipfile.ZipFile(path) as archive:
        if max((info.file_size for info in archive.infolist()), default=0) > MAX_BYTES:
            raise UserError(f"{path}: claims more than {MAX_BYTES} bytes, which cannot be; {AGAIN}")
    with reading(path), np.load(path, allow_pickle=False) as file:
        for names in keys:
            if not any(name in file for name in names):
                raise UserError(f"{path}: no array {' or '.join(names)} (it holds {', '.join(file)}); {AGAIN}")
        return [file[next(name for name in names if name in file)] for names in keys]


def class_folders(folders: list[Path], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Folder i holds the images of class i: grey (N, 1, size, size) uint8, in the order of class, then file name."""
    from PIL import Image  # not part of the training core

    images, labels = [], []
    for label, folder in enumerate(folders):
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpeg", ".jpg", ".png"))
        if not paths:
            raise UserError(f"{folder}: no .jpeg, .jpg or .png in it; unpack the data set again")
        for path in paths:
            with reading(path), Image.open(path) as image:
                images.append(np.asarray(image.convert("L").resize((size, size), Image.Resampling.BILINEAR)))
        labels += [label] * len(paths)
    return np.stack(images)[:, None], np.asarray(labels)
