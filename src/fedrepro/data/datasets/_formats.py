"""Readers of the file formats: IDX, CIFAR's python batches, npz. They trust no file and raise
UserError for a bad one."""

import gzip
import io
import math
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar

import numpy as np

from fedrepro.core import files
from fedrepro.core.errors import UserError, is_interrupt

# of one decoded file: more than any set here has, less than a laptop's memory
MAX_BYTES = files.MAX_BYTES
TRUNCATED = (EOFError, OSError, zlib.error, tarfile.TarError, zipfile.BadZipFile, MemoryError)

NUMBERS = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
CHUNK = 1 << 20
# train_x, train_y, test_x, test_y, and for data from devices the owners of both parts
Arrays = tuple[np.ndarray, ...]


@contextmanager
def reading(where: Path | str, advice: str = "") -> Iterator[None]:
    """Turn any error that a damaged file causes in the block into a UserError that ends with
    `advice`. Raises UserError also if the path is a folder, or a pipe, which would block."""
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
        kind = (
            "truncated or damaged" if isinstance(error, TRUNCATED) else "not in the expected format"
        )
        told = str(error).replace(repr(str(where)), "")  # Pillow names the file again
        reason = " ".join(told.split()) or type(error).__name__
        raise UserError(f"{where}: {kind} ({reason}){ending}") from None


def _read_exactly(stream: IO[bytes] | gzip.GzipFile, size: int, where: Path | str) -> bytes:
    """Read `size` bytes, which have to be all that the stream has."""
    data = stream.read(size + 1)
    if len(data) != size:
        raise UserError(
            f"{where}: holds {'more' if len(data) > size else 'fewer'} bytes than its header says"
        )
    return data


def idx(packed: Path | IO[bytes], dims: int, where: Path | str) -> np.ndarray:
    """Read a packed uint8 IDX array of `dims` dimensions; sizes are big-endian 32-bit
    (http://yann.lecun.com/exdb/mnist/)."""
    with reading(where), gzip.open(packed) as stream:
        header = stream.read(4 + 4 * dims)
        if header[:4] != bytes((0, 0, 8, dims)) or len(header) < 4 + 4 * dims:
            raise UserError(f"{where}: not an IDX file of {dims}-dimensional bytes")
        shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
        if math.prod(shape) > MAX_BYTES:
            raise UserError(
                f"{where}: its header claims {' x '.join(map(str, shape))} bytes, which cannot be"
            )
        return np.frombuffer(_read_exactly(stream, math.prod(shape), where), np.uint8).reshape(
            shape
        )


def idx_in_zip(path: Path, member: str, dims: int) -> np.ndarray:
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(member) as packed:
        return idx(packed, dims, f"{path}, {member}")


def mnist_like(raw: Path) -> Arrays:
    """Read the four IDX files of MNIST and its relatives; images (N, 1, H, W)."""
    arrays: list[np.ndarray] = []
    for part in ("train", "t10k"):
        images, labels = (
            raw / f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")
        )
        arrays += [idx(images, 3, images)[:, None], idx(labels, 1, labels)]
    return tuple(arrays)


class _Call:
    """A call that a pickle asks for, with its arguments and state: recorded, never made."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ArrayCall(_Call):
    """numpy's `_reconstruct`."""


class _TypeCall(_Call):
    """numpy's `dtype`."""


class _Text(_Call):
    """Bytes as old protocols spell them."""

    def __new__(cls, text: str, coding: str) -> Any:
        if coding != "latin1":
            raise ValueError("bytes in another coding than latin1")
        return text.encode(coding)


class _ArraysOnly(pickle._Unpickler):
    """Reads numpy arrays, containers and strings. It refuses all other names in a pickle, and calls
    nothing that is named. Based on the unpickler written in Python: in the other one a short pickle
    can allocate any amount of memory."""

    KNOWN: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"): _ArrayCall,
        ("numpy._core.multiarray", "_reconstruct"): _ArrayCall,  # its name since numpy 2
        ("numpy", "ndarray"): _Call,
        ("numpy", "dtype"): _TypeCall,
        ("_codecs", "encode"): _Text,
    }

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in self.KNOWN:
            raise pickle.UnpicklingError(f"its pickle asks for {module}.{name}, so it is refused")
        return self.KNOWN[module, name]


def _array(value: Any) -> np.ndarray:
    """Return the array of numbers that a pickle describes."""
    if not isinstance(value, _Call):
        return np.asarray(value)
    if not isinstance(value, _ArrayCall):
        raise ValueError("another call where an array is expected")
    _, shape, kind, columns, content = value.state
    if not isinstance(kind, _TypeCall) or not isinstance(content, bytes):
        raise ValueError("an array that is not of plain numbers")
    code, order = kind.arguments[0], (kind.state or (3, "|"))[1]
    code, order = (
        text.decode("ascii") if isinstance(text, bytes) else text for text in (code, order)
    )
    if code not in NUMBERS or order not in ("<", ">", "|", "="):
        raise ValueError(f"an array of {code!r}, which are no numbers")
    if not isinstance(shape, tuple) or not all(
        type(size) is int and 0 <= size <= MAX_BYTES for size in shape
    ):
        raise ValueError(f"an array of the shape {shape!r}")
    numbers = np.frombuffer(content, f"{order}{code}" if order != "|" else code)
    return numbers.reshape(shape, order="F" if columns else "C")


def tar_members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Read regular members by exact name into memory: nothing is extracted, so that no member can
    escape or be a link."""
    contents: dict[str, bytes] = {}
    with (
        reading(path),
        gzip.open(path) as stream,
        tarfile.open(fileobj=stream, mode="r:") as archive,
    ):
        for member in archive:
            if member.name not in names:
                continue
            if not member.isreg() or member.size > MAX_BYTES:
                raise UserError(
                    f"{path}: {member.name} is a link or too large, so this is not the release"
                )
            content = archive.extractfile(member)
            assert content is not None  # as of any regular member
            contents[member.name] = _read_exactly(content, member.size, path)
        while stream.read(CHUNK):  # the checksum is at the end
            pass
    if missing := [name for name in names if name not in contents]:
        raise UserError(f"{path}: {missing[0]} is not in it")
    return contents


def cifar(raw: Path, archive: str, paths: Sequence[str], key: str) -> Arrays:
    """Read CIFAR's python batches, from the release's archive or from loose files. Images (N, 3,
    32, 32).

    Args:
        paths: of the batches in the archive; the last one is the test part.
        key: of the labels in a batch.
    """
    packed = tar_members(raw / archive, paths) if (raw / archive).is_file() else {}
    batches: list[tuple[np.ndarray, np.ndarray]] = []
    for path in paths:
        name = PurePosixPath(path).name
        where = f"{raw / archive}, {name}" if packed else raw / name
        with reading(where):
            batches.append(
                cifar_batch(packed[path] if packed else files.read_file(raw / name), key, where)
            )
    x, y = (np.concatenate(arrays) for arrays in zip(*batches[:-1], strict=True))
    return x, y, *batches[-1]


def cifar_batch(data: bytes, key: str, where: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """Read a pickled dictionary of images and labels, of python 2 or 3; python 2's strings are
    bytes."""
    with reading(where):
        record = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
        record = {k.decode() if isinstance(k, bytes) else k: v for k, v in record.items()}
        images, labels = _array(record["data"]), _array(record[key])
        if (
            images.dtype != np.uint8
            or images.shape != (len(labels), 3072)
            or labels.dtype.kind not in "iu"
        ):
            raise UserError(
                f"{where}: expected {len(labels)} x 3072 bytes, found {images.dtype} {images.shape}"
            )
        if labels.ndim != 1:
            raise UserError(f"{where}: expected {len(labels)} labels, found {labels.shape}")
    return images.reshape(-1, 3, 32, 32), labels


@contextmanager
def npz_file(
    where: Path | str, stream: Path | IO[bytes], max_bytes: int = MAX_BYTES
) -> Iterator[Any]:
    """Open an npz file. Raises UserError for damage and, before anything is unpacked, for an array
    of too many bytes."""
    with reading(where), np.load(stream, allow_pickle=False) as file:
        if (most := max((info.file_size for info in file.zip.infolist()), default=0)) > max_bytes:
            raise UserError(
                f"{where}: claims {most} bytes, and an array may have at most {max_bytes} "
                f"(MAX_BYTES)"
            )
        yield file


def npz(path: Path, keys: list[tuple[str, ...]]) -> list[np.ndarray]:
    """Read arrays of an npz file, each by the first of its possible keys that exists. Never
    unpickles."""
    with npz_file(path, path) as file:
        for names in keys:
            if not any(name in file for name in names):
                raise UserError(
                    f"{path}: no array {' or '.join(names)} (it holds {', '.join(file)})"
                )
        return [file[next(name for name in names if name in file)] for names in keys]
