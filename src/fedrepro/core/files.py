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
MAX_BYTES = 1 << 30  # of a file that is read whole
# of file systems without locks
NO_LOCKS = {errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
SEAL = "seal"  # the key of the digest of all other keys
# tells process numbers apart on a shared disk
MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:6]


@contextlib.contextmanager
def single_process(path: Path, wait: bool = True) -> Iterator[None]:
    """Let one process at a time run the block, by a lock on the file `path` that the system
    releases when the process ends.

    On a file system without locks every process may run it. Raises UserError if another process has
    the lock and `wait` is False, or if the path is a link, through which would be written, or a
    folder or pipe.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # below /proc, where nobody can make a folder
        raise UserError(f"{path.parent}: cannot be made; choose another folder") from None
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: not a file; {DELETE_ADVICE}")
    with path.open("a") as file:  # NFS locks only what may be written
        if lock(file, wait) is False:
            raise UserError(f"{path.parent}: another process is at work in it; wait for its end")
        yield


def check_regular(path: Path, advice: str = DELETE_ADVICE) -> None:
    """Raise UserError for a folder, or for a pipe, which would block; not for a missing file."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: not a file; {advice}")


def check_no_links(folder: Path) -> None:
    """Raise UserError if a folder, or anything in it, is neither a regular file nor a folder: not
    safe to write or delete."""
    for path in (folder, *folder.rglob("*")):
        # deleted by a process that works in the folder
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UserError(
                    f"{path}: {'a link' if stat.S_ISLNK(mode) else 'not a file'}; {DELETE_ADVICE}"
                )


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a file; True also for another user's file, whose lock
    cannot be checked."""
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
    """Lock an open file until it is closed. Returns whether it succeeded, or None on a file system
    without locks."""
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
    """Yield a temporary path of this process; when the block ends without error, it replaces `path`
    in one step."""
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
    """Return this process's temporary file for `path`."""
    return path.with_name(f".{path.name}.{MACHINE}-{os.getpid()}.part")


def remove_stale_parts(path: Path) -> None:
    """Remove the temporary files for `path` that killed processes of this machine left."""
    _remove(stale_parts(path))


def stale_parts(path: Path) -> list[Path]:
    """Return the temporary files for `path` that killed processes of this machine left."""
    return sorted(
        filter(_abandoned, path.parent.glob(f".{glob.escape(path.name)}.{MACHINE}-*.part"))
    )


def remove_stale_parts_below(folder: Path) -> None:
    """Remove all stale temporary files in a folder and its subfolders, left by killed processes of
    this machine."""
    _remove(filter(_abandoned, list(folder.rglob(".*.part"))))


def _abandoned(part: Path) -> bool:
    machine, _, process = part.stem.rpartition(".")[2].partition("-")
    return machine == MACHINE and not is_alive(int(process))


def _remove(parts: Iterable[Path]) -> None:
    for part in parts:
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Return whether a process with this number runs on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        pass
    return True


def read_file(path: Path, advice: str = DELETE_ADVICE, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a whole file. Raises UserError for a folder, for a pipe, which would block, and for too
    large a file."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise UserError(f"{path}: not a file; {advice}")
    if state.st_size > max_bytes:
        raise UserError(
            f"{path}: {state.st_size} bytes, of which at most {max_bytes} are read; {advice}"
        )
    with path.open("rb") as file:
        return file.read(state.st_size)


def read_json(path: Path, *keys: str, advice: str = DELETE_ADVICE) -> dict[str, Any] | None:
    """Read a small JSON file that this package wrote; None if it does not exist.

    Raises UserError, ending with `advice`, if the file is damaged, lacks one of the keys or does
    not fit its seal (a file that a user wrote has none).
    """
    try:
        content = read_file(path, advice)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parse_json(content, path, *keys, advice=advice)


def parse_json(
    content: bytes, path: Path, *keys: str, advice: str = DELETE_ADVICE
) -> dict[str, Any]:
    """Parse the content of a file as `read_json` does; `path` is for messages."""
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
    """Read a file as `read_json` does. Raises UserError also if it does not exist."""
    values = read_json(path, *keys)
    if values is None:
        raise UserError(f"{path}: not there; run again")
    return values


def read_records(path: Path, *keys: str, advice: str = DELETE_ADVICE) -> list[dict[str, Any]]:
    """Read a list of records, each with these keys, that this package wrote. Raises UserError if it
    is damaged or missing."""
    try:
        records = _parsed(read_file(path), path, advice)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; run again") from None
    if not isinstance(records, list) or not all(
        isinstance(one, dict) and one.keys() >= set(keys) for one in records
    ):
        raise UserError(
            f"{path}: damaged, expected a list of records with {', '.join(keys) or 'names'}; "
            f"{advice}"
        )
    return records


def parse_rows(content: bytes, path: Path, advice: str = DELETE_ADVICE) -> list[dict[str, str]]:
    """Parse a CSV file that this package wrote, cells as text. Raises UserError if it is
    damaged."""
    try:
        return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: damaged ({error}); {advice}") from None


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write values as JSON with a seal. A reader sees either the old or the new file."""
    with atomic_write(path) as temporary:
        temporary.write_text(json_text(values), encoding="utf-8")


def json_text(values: dict[str, Any]) -> str:
    """Return values as JSON with a seal, the digest of all values."""
    return json.dumps(values | {SEAL: _seal(values)}, indent=1, sort_keys=True) + "\n"


def _seal(values: dict[str, Any]) -> str:
    # via JSON, which turns all keys into texts
    return sha256(json.dumps(json.loads(json.dumps(values)), sort_keys=True))


def sha256(*parts: bytes | memoryview | str) -> str:
    """Return the sha256 of the concatenated parts in hexadecimal; texts count as UTF-8."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()
