"""Readers of the file formats: IDX, CIFAR's python batches, npz. They trust no file and raise UserError for a bad one."""

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
from typing import IO, Any, Protocol

import numpy as np

from fedrepro.core import files
from fedrepro.core.errors import UserError, is_interrupt

MAX_BYTES = files.MAX_BYTES  # of one decoded file: more than any set here has, less than a laptop's memory
TRUNCATED = (EOFError, OSError, zlib.error, tarfile.TarError, zipfile.BadZipFile, MemoryError)

NUMBERS = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
CHUNK = 1 << 20
Arrays = tuple[np.ndarray, ...]  # train_x, train_y, test_x, test_y, and for data from devices the owners of both parts


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


@contextmanager
def reading(where: Path | str, advice: str = "") -> Iterator[None]:
    """Turn any error that a damaged file causes in the block into a UserError that ends with `advice`. Raises UserError also if
    the path is a folder, or a pipe, which would block."""
    ending = f"; {advice}" if advice else ""
    try:
        if isinstance(where, Path):
            files.check_regular(where, advice or files.DELETE_ADVICE)
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{where}: not there{ending}") from None
    except Exception as error:  # decoders raise nearly anything on damaged input
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        kind = "truncated or damaged" if isinstance(error, TRUNCATED) else "not in the expected format"
        told = str(error).replace(repr(str(where)), "")  # Pillow names the file again
        reason = " ".join(told.split()) or type(error).__name__
        raise UserError(f"{where}: {kind} ({reason}){ending}") from None


def _read_exactly(stream: _Stream, size: int, where: Path | str) -> bytes:
    """Read `size` bytes, which have to be all that the stream has."""
    data = stream.read(size + 1)
    if len(data) != size:
        raise UserError(f"{where}: holds {'more' if len(data) > size else 'fewer'} bytes than its header says")
    return data


def idx(stream: _Stream, dims: int, where: Path | str) -> np.ndarray:
    """Read a uint8 IDX array of `dims` dimensions (format: http://yann.lecun.com/exdb/mnist/); sizes are big-endian 32-bit."""
    header = stream.read(4 + 4 * dims)
    if header[:4] != bytes((0, 0, 8, dims)) or len(header) < 4 + 4 * dims:
        raise UserError(f"{where}: not an IDX file of {dims}-dimensional bytes")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
    if math.prod(shape) > MAX_BYTES:
        raise UserError(f"{where}: its header claims {' x '.join(map(str, shape))} bytes, which cannot be")
    return np.frombuffer(_read_exactly(stream, math.prod(shape), where), np.uint8).reshape(shape)


def idx_gz(path: Path, dims: int) -> np.ndarray:
    with reading(path), gzip.open(path) as stream:
        return idx(stream, dims, path)


def idx_in_zip(path: Path, member: str, dims: int) -> np.ndarray:
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(member) as packed, gzip.open(packed) as stream:
        return idx(stream, dims, f"{path}, {member}")


def mnist_like(raw: Path) -> Arrays:
    """Read the four IDX files of MNIST and its relatives; images (N, 1, H, W)."""
    images = [idx_gz(raw / f"{part}-images-idx3-ubyte.gz", 3)[:, None] for part in ("train", "t10k")]
    labels = [idx_gz(raw / f"{part}-labels-idx1-ubyte.gz", 1) for part in ("train", "t10k")]
    return images[0], labels[0], images[1], labels[1]


class _RecordedCall:
    """A call that a pickle asks for, with its arguments and state: recorded, never made."""

    def __init__(self, name: str, arguments: tuple) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _NamedFunction:
    """A stand-in for a function of numpy or of the standard library that a pickle names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        if self.name != "encode":
            return _RecordedCall(self.name, arguments)
        text, coding = arguments  # how old protocols spell bytes
        if not isinstance(text, str) or coding != "latin1":
            raise ValueError("bytes in another coding than latin1")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a function with a state")


class _ArraysOnly(pickle._Unpickler):
    """Reads numpy arrays, containers and strings. It refuses all other names in a pickle, and calls nothing that is named.
    Based on the unpickler written in Python: in the other one a short pickle can allocate any amount of memory."""

    KNOWN = (("multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"))

    def __init__(self, data: bytes, where: Path | str) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        self.where = where

    def find_class(self, module: str, name: str) -> _NamedFunction:
        # numpy.core was renamed to numpy._core
        known = "multiarray" if module in ("numpy.core.multiarray", "numpy._core.multiarray") else module
        if (known, name) not in self.KNOWN:
            raise UserError(
                f"{self.where}: its pickle asks for {module}.{name}, so it is refused; delete it, use another source"
            )
        return _NamedFunction(name)


def _array(call: _RecordedCall) -> np.ndarray:
    """Return the array of numbers that a pickle describes."""
    if call.name != "_reconstruct":
        raise ValueError(f"{call.name} where an array is expected")
    _, shape, kind, columns, content = call.state
    if not isinstance(kind, _RecordedCall) or kind.name != "dtype" or not isinstance(content, bytes):
        raise ValueError("an array that is not of plain numbers")
    code, order = kind.arguments[0], (kind.state or (3, "|"))[1]
    code, order = (text.decode("ascii") if isinstance(text, bytes) else text for text in (code, order))
    if code not in NUMBERS or order not in ("<", ">", "|", "="):
        raise ValueError(f"an array of {code!r}, which are no numbers")
    if not isinstance(shape, tuple) or not all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape):
        raise ValueError(f"an array of the shape {shape!r}")
    numbers = np.frombuffer(content, f"{order}{code}" if order != "|" else code)
    return numbers.reshape(shape, order="F" if columns else "C")


def unpickle(data: bytes, where: Path | str) -> Any:
    """Read a pickle of python 2 or 3 that is an array, or a dictionary of arrays and plain containers. Python 2's strings are
    returned as bytes."""
    with reading(where):
        value = _ArraysOnly(data, where).load()
        if isinstance(value, dict):
            return {key: _array(item) if isinstance(item, _RecordedCall) else item for key, item in value.items()}
        return _array(value) if isinstance(value, _RecordedCall) else value


def tar_members(path: Path, names: list[str]) -> dict[str, bytes]:
    """Read regular members by exact name into memory: nothing is extracted, so that no member can escape or be a link."""
    contents: dict[str, bytes] = {}
    with reading(path), gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            if member.name not in names:
                continue
            if not member.isreg() or member.size > MAX_BYTES:
                raise UserError(f"{path}: {member.name} is a link or too large, so this is not the release")
            content = archive.extractfile(member)
            assert content is not None  # as of any regular member
            contents[member.name] = _read_exactly(content, member.size, path)
        while stream.read(CHUNK):  # the checksum is at the end
            pass
    if missing := [name for name in names if name not in contents]:
        raise UserError(f"{path}: {missing[0]} is not in it")
    return contents


def cifar(raw: Path, archive: str, folder: str, train: list[str], test: str, key: str) -> Arrays:
    """Read CIFAR's python batches, from the release's archive or from loose files. Images (N, 3, 32, 32).

    Args:
        key: of the labels in a batch.
    """
    if (raw / archive).is_file():
        packed = tar_members(raw / archive, [f"{folder}/{name}" for name in [*train, test]])
        batches = {name: (packed[f"{folder}/{name}"], f"{raw / archive}, {name}") for name in [*train, test]}
    else:
        batches = {}
        for name in [*train, test]:
            with reading(raw / name):
                batches[name] = (files.read_file(raw / name), raw / name)
    parts = {name: cifar_batch(data, key, where) for name, (data, where) in batches.items()}
    x, y = (np.concatenate([parts[name][i] for name in train]) for i in (0, 1))
    return x, y, *parts[test]


def cifar_batch(data: bytes, key: str, where: Path | str) -> tuple[np.ndarray, np.ndarray]:
    record = unpickle(data, where)
    with reading(where):
        record = {k.decode() if isinstance(k, bytes) else k: v for k, v in record.items()}
        images, labels = record["data"], np.asarray(record[key])
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072) or labels.dtype.kind not in "iu":
            raise UserError(f"{where}: expected {len(labels)} x 3072 bytes, found {images.dtype} {images.shape}")
        if labels.ndim != 1:
            raise UserError(f"{where}: expected {len(labels)} labels, found {labels.shape}")
        return images.reshape(-1, 3, 32, 32), labels


@contextmanager
def npz_file(where: Path | str, stream: Path | IO[bytes], max_bytes: int = MAX_BYTES) -> Iterator[Any]:
    """Open an npz file. Raises UserError for damage and, before anything is unpacked, for an array of too many bytes."""
    with reading(where), np.load(stream, allow_pickle=False) as file:
        if (most := max((info.file_size for info in file.zip.infolist()), default=0)) > max_bytes:
            raise UserError(f"{where}: claims {most} bytes, and an array may have at most {max_bytes} (MAX_BYTES)")
        yield file


def npz(path: Path, keys: list[tuple[str, ...]]) -> list[np.ndarray]:
    """Read arrays of an npz file, each by the first of its possible keys that exists. Never unpickles."""
    with npz_file(path, path) as file:
        for names in keys:
            if not any(name in file for name in names):
                raise UserError(f"{path}: no array {' or '.join(names)} (it holds {', '.join(file)})")
        return [file[next(name for name in names if name in file)] for names in keys]
