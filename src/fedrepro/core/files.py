"""Files that are whole or absent, whoever is killed or writes beside; what a damaged one is answered with."""

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from fedrepro.core.errors import UserError

RERUN = "run again"
AGAIN = f"delete it and {RERUN}"
NO_LOCKS = {errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}  # what network disks say of a lock
SEAL = "seal"  # the key of the digest over all others
MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:6]  # on a disk that several share, whose process a number is


@contextlib.contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold a file, made where there is none, until the block ends. Raises UserError while another process holds it. A file
    system that knows no locks leaves it open who does."""
    check_lock(path)
    with path.open("a") as file:  # NFS locks only what may be written
        if lock(file) is False:
            raise UserError(f"{path.parent}: another process is at work in it; wait for its end")
        yield


def check_lock(path: Path) -> None:
    """Raise UserError for a link, which would be written through, and for what is no file: a pipe would be waited for."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: not a file; {AGAIN}")


def check_regular(path: Path, advice: str = AGAIN) -> None:
    """Raise UserError for a folder, and for a pipe, which would be waited for. Of a file that is absent nothing is said."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: not a file; {advice}")


def check_own(folder: Path) -> None:
    """Raise UserError where a folder to write and delete in, or anything in it, is a link or no file."""
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a process that was at work in it has just ended
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UserError(f"{path}: {'a link' if stat.S_ISLNK(mode) else 'not a file'}; {AGAIN}")


def held(path: Path) -> bool:
    """Whether a process holds it; also where this one may not ask, since the file is somebody else's."""
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
    """Whether an open file is locked by this process now, until it is closed; None where the file system knows no locks."""
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
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, of this process alone; it takes the place of `path` in one step when the block ends well."""
    temporary = part(path)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sweep(path)


def part(path: Path) -> Path:
    """Where this process makes what will be at `path`."""
    return path.with_name(f".{path.name}.{MACHINE}-{os.getpid()}.part")


def sweep(path: Path) -> None:
    """Away with the parts of `path` that processes of this machine left when they were killed."""
    _remove(abandoned(path))


def abandoned(path: Path) -> list[Path]:
    """These parts."""
    return sorted(filter(_abandoned, path.parent.glob(f".{glob.escape(path.name)}.{MACHINE}-*.part")))


def sweep_below(folder: Path) -> None:
    """The same in a folder and those within, whatever was to be made; parts of earlier code, which name no machine, go too."""
    _remove(filter(_abandoned, list(folder.rglob(".*.part"))))


def _abandoned(left: Path) -> bool:
    machine, _, process = left.stem.rpartition(".")[2].partition("-")
    return not process or (machine == MACHINE and not alive(int(process)))


def _remove(parts: Iterable[Path]) -> None:
    for left in parts:
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(missing_ok=True)


def alive(process: int) -> bool:
    """Whether a process of this machine with this number runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Only one process at a time is in such a block with this lock file; the lock ends with its process, however that ends. A
    file system that knows no locks lets all in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    check_lock(path)
    with path.open("a") as file:
        lock(file, wait=True)
        yield


def read_file(path: Path, advice: str = AGAIN) -> bytes:
    """What a file holds. Raises UserError for a folder, and for a pipe, which would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise UserError(f"{path}: not a file; {advice}")
    return path.read_bytes()


def read_json(path: Path, *keys: str, advice: str = AGAIN) -> dict[str, Any] | None:
    """A small file that this package wrote, with these keys; None where there is none. Raises UserError where it is damaged, or
    not what its seal says (earlier code wrote none); `advice` says what to do then."""
    try:
        content = read_file(path, advice)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parsed(content, path, *keys, advice=advice)


def parsed(content: bytes, path: Path, *keys: str, advice: str = AGAIN) -> dict[str, Any]:
    """The same of what was read already; `path` is for messages."""
    try:
        values = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: damaged; {advice}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: damaged, holds no keys and values; {advice}")
    if missing := [key for key in keys if key not in values]:
        raise UserError(f"{path}: damaged, lacks {', '.join(missing)}; {advice}")
    if not is_whole(values):
        raise UserError(f"{path}: changed since it was written; {advice}")
    values.pop(SEAL, None)
    return values


def read_whole_json(path: Path, *keys: str) -> dict[str, Any]:
    """As `read_json`, of a file that has to be there."""
    values = read_json(path, *keys)
    if values is None:
        raise UserError(f"{path}: not there; {RERUN}")
    return values


def read_records(path: Path, *keys: str) -> list[dict[str, Any]]:
    """A list of records that this package wrote, each with these keys. Raises UserError where it is damaged or not there."""
    try:
        records = json.loads(read_file(path).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {RERUN}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: damaged; {AGAIN}") from None
    if not isinstance(records, list) or not all(isinstance(one, dict) and one.keys() >= set(keys) for one in records):
        raise UserError(f"{path}: damaged, expected a list of records with {', '.join(keys) or 'names'}; {AGAIN}")
    return records


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Sealed; a reader sees the old file or the new one."""
    with replacing(path) as temporary:
        temporary.write_text(json_text(values), encoding="utf-8")


def json_text(values: dict[str, Any]) -> str:
    """As `write_json` writes them."""
    return json.dumps(sealed(values), indent=1, sort_keys=True) + "\n"


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """Values with a digest of them all."""
    return values | {SEAL: _seal(values)}


def is_whole(values: dict[str, Any]) -> bool:
    """Whether what was read says what its seal says, if it has one."""
    return values.get(SEAL) in (None, _seal({key: value for key, value in values.items() if key != SEAL}))


def _seal(values: dict[str, Any]) -> str:
    return digest(json.dumps(json.loads(json.dumps(values)), sort_keys=True))  # read back: keys are texts then


def text_digest(content: bytes) -> str:
    """sha256 of a text, whatever line ends git gave it."""
    return digest(content.replace(b"\r\n", b"\n"))


def digest(*parts: bytes | memoryview | str) -> str:
    """sha256 of texts and bytes, one after the other."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()
