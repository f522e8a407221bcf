"""Write files atomically, lock them, and read small JSON files with clear errors."""

import contextlib
import csv
import errno
import fcntl
import glob
import hashlib
import io
import json
import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from fedrepro.core.errors import UserError

DELETE_ADVICE = "delete it and run again"
NO_LOCKS = {errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}  # what network disks say of a lock
SEAL = "seal"  # the key of the digest over all others
MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:6]  # on a disk that several share, whose process a number is


@contextlib.contextmanager
def single_process(path: Path, wait: bool = True) -> Iterator[None]:
    """Let one process at a time into the block, by a lock on a file that ends with its process, however that ends.

    A file system that knows no locks lets all in. Raises UserError while another process has the lock, unless this one is to
    `wait` for it, and where the path is a link, which would be written through, or no file: a pipe would be waited for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: not a file; {DELETE_ADVICE}")
    with path.open("a") as file:  # NFS locks only what may be written
        if lock(file, wait) is False:
            raise UserError(f"{path.parent}: another process is at work in it; wait for its end")
        yield


def check_regular(path: Path, advice: str = DELETE_ADVICE) -> None:
    """Raise UserError for a folder, and for a pipe, which would be waited for; not for a file that is absent."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: not a file; {advice}")


def check_no_links(folder: Path) -> None:
    """Raise UserError where a folder to write and delete in, or anything in it, is a link or no file."""
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a process that was at work in it has just ended
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UserError(f"{path}: {'a link' if stat.S_ISLNK(mode) else 'not a file'}; {DELETE_ADVICE}")


def is_locked(path: Path) -> bool:
    """Return whether a process has the lock; also True where this one may not ask, since the file is somebody else's."""
    if path.exists() and not path.is_file():
        return False
    try:
        with path.open("r+") as file:
            return lock(file) is False
    except PermissionError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False


def lock(file: IO[str], wait: bool = False) -> bool | None:
    """Lock an open file until it is closed. Returns whether it worked; None where the file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return None
    return True


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a path to write to, of this process alone, which replaces `path` in one step when the block ends well."""
    temporary = temporary_path(path)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    remove_stale_parts(path)


def temporary_path(path: Path) -> Path:
    """Return the temporary file in which this process writes what will be at `path`."""
    return path.with_name(f".{path.name}.{MACHINE}-{os.getpid()}.part")


def remove_stale_parts(path: Path) -> None:
    """Remove the temporary files of `path` that killed processes of this machine left."""
    _remove(stale_parts(path))


def stale_parts(path: Path) -> list[Path]:
    """Return these files."""
    return sorted(filter(_abandoned, path.parent.glob(f".{glob.escape(path.name)}.{MACHINE}-*.part")))


def remove_stale_parts_below(folder: Path) -> None:
    """Remove all such files in a folder and those within; also those of earlier code, which name no machine."""
    _remove(filter(_abandoned, list(folder.rglob(".*.part"))))


def _abandoned(left: Path) -> bool:
    machine, _, process = left.stem.rpartition(".")[2].partition("-")
    return not process or (machine == MACHINE and not is_alive(int(process)))


def _remove(parts: Iterable[Path]) -> None:
    for left in parts:
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Return whether a process of this machine with this number runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


def read_file(path: Path, advice: str = DELETE_ADVICE) -> bytes:
    """Read a whole file. Raises UserError for a folder, and for a pipe, which would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise UserError(f"{path}: not a file; {advice}")
    return path.read_bytes()


def read_json(path: Path, *keys: str, advice: str = DELETE_ADVICE) -> dict[str, Any] | None:
    """Read a small file that this package wrote, with these keys; None where there is none.

    Raises UserError, ending with `advice`, where it is damaged, or not what its seal says (earlier code wrote none).
    """
    try:
        content = read_file(path, advice)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parse_json(content, path, *keys, advice=advice)


def parse_json(content: bytes, path: Path, *keys: str, advice: str = DELETE_ADVICE) -> dict[str, Any]:
    """Parse such a file that was read already; `path` is for messages."""
    values = _parsed(content, path, advice)
    if not isinstance(values, dict):
        raise UserError(f"{path}: damaged, holds no keys and values; {advice}")
    if missing := [key for key in keys if key not in values]:
        raise UserError(f"{path}: damaged, lacks {', '.join(missing)}; {advice}")
    seal = values.pop(SEAL, None)
    if seal not in (None, _seal(values)):
        raise UserError(f"{path}: changed since it was written; {advice}")
    return values


def _parsed(content: bytes, path: Path, advice: str) -> Any:
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: damaged; {advice}") from None


def read_required_json(path: Path, *keys: str) -> dict[str, Any]:
    """As `read_json`, of a file that has to be there."""
    values = read_json(path, *keys)
    if values is None:
        raise UserError(f"{path}: not there; run again")
    return values


def read_records(path: Path, *keys: str, advice: str = DELETE_ADVICE) -> list[dict[str, Any]]:
    """Read a list of records that this package wrote, each with these keys. Raises UserError where it is damaged or absent."""
    try:
        records = _parsed(read_file(path), path, advice)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; run again") from None
    if not isinstance(records, list) or not all(isinstance(one, dict) and one.keys() >= set(keys) for one in records):
        raise UserError(f"{path}: damaged, expected a list of records with {', '.join(keys) or 'names'}; {advice}")
    return records


def parse_rows(content: bytes, path: Path, advice: str = DELETE_ADVICE) -> list[dict[str, str]]:
    """Parse a CSV file that this package wrote, cells as they are written. Raises UserError where it is damaged."""
    try:
        return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: damaged ({error}); {advice}") from None


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Sealed; a reader sees the old file or the new one."""
    with atomic_write(path) as temporary:
        temporary.write_text(json_text(values), encoding="utf-8")


def json_text(values: dict[str, Any]) -> str:
    """As `write_json` writes them: with a seal, a digest of them all."""
    return json.dumps(values | {SEAL: _seal(values)}, indent=1, sort_keys=True) + "\n"


def _seal(values: dict[str, Any]) -> str:
    return sha256(json.dumps(json.loads(json.dumps(values)), sort_keys=True))  # read back: keys are texts then


def sha256(*parts: bytes | memoryview | str) -> str:
    """sha256 of texts and bytes, one after the other."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()
