"""Bring the raw files of a data set into one folder: from the official release, checksums held, or from the user's mirror.

A folder is complete once it holds `source.json`: {"source": where from, "files": {file name: md5}}; it is written last.
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType

from fedrepro import files
from fedrepro.errors import Unavailable, UserError, masked
from fedrepro.files import read_json, write_json

log = logging.getLogger(__name__)

STAMP = "source.json"
ATTEMPTS = 3  # per address
BACKOFF = 1.0  # seconds before the second attempt; doubles each time
TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte
CHUNK = 1 << 18
MIRROR_HELP = (
    "Without internet, let a folder or URL that holds the data serve: "
    "set FEDREPRO_DATA_MIRROR or pass `--config data_mirror=PATH_OR_URL`"
)


@dataclass(frozen=True)
class File:
    """One file of an official release: its addresses are tried in order, its md5 must hold."""

    name: str
    urls: tuple[str, ...]
    md5: str


class Absent(Exception):
    """A source says that it does not have the file: no use in asking it again."""


class Silent(Absent):
    """A source does not answer, or breaks off every time: no use in asking it for another file."""


_silent: dict[str, str] = {}  # what was told of each mirror that fell silent: minutes that this process waits once


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns an operating system's refusal into a UserError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{error.filename or folder}: cannot read or write ({reason}); check permissions and free space"
        ) from None


def md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def has_official_files(module: ModuleType, stamp: dict) -> bool:
    return bool(module.FILES) and stamp["files"] == {file.name: file.md5 for file in module.FILES}


def verified_stamp(folder: Path) -> dict:
    """The folder's stamp, after every file's md5 held against it. Raises UserError; the stamp goes then, so that the next call
    fetches what is not as it was."""
    stamp = read_json(folder / STAMP, "source", "files")
    if stamp is None:
        raise UserError(f"{folder}: raw files missing or incomplete; fetch the data set first")
    for name, md5 in stamp["files"].items():
        path = folder / name
        if not path.is_file() or md5_of(path) != md5:
            with writing(folder):
                (folder / STAMP).unlink(missing_ok=True)
            raise UserError(f"{path}: changed or gone since it was fetched; start again, it is fetched anew")
    return stamp


def is_complete(module: ModuleType, folder: Path, mirror: str | None) -> bool:
    """Files of a mirror do not count once the official release is asked for, unless they are its files, byte for byte."""
    stamp = read_json(folder / STAMP, "source", "files")
    expected = [*getattr(module, "FOLDERS", ()), *(stamp["files"] if stamp else ())]
    if stamp is None or not all((folder / name).exists() for name in expected):
        return False
    return bool(mirror) or stamp["source"] != "mirror" or has_official_files(module, stamp)


def bring(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """Makes `folder` complete, by whichever way the module declares; one process at a time, the others wait. Raises
    UserError."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if is_complete(module, folder, mirror):
            return
        with files.alone(folder.with_name(f".{folder.name}.fetch.lock")):
            if not is_complete(module, folder, mirror):  # brought by whom this one waited for
                _bring(module, folder, mirror)


def _bring(module: ModuleType, folder: Path, mirror: str | None) -> None:
    if module.FILES:
        bring_files(module, folder, mirror)
    elif hasattr(module, "FOLDERS"):
        bring_folders(module, folder, mirror)
    else:
        _stamp_own(folder, getattr(module, "SOURCE", "own"))


def bring_files(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """All files of a set into `folder`, then its stamp. Raises UserError."""
    (folder / STAMP).unlink(missing_ok=True)
    files = _from_mirror(module.MIRROR, folder, mirror) if mirror else _from_release(module, folder)
    known = {PurePosixPath(part).name for layout in module.MIRROR for part in layout}
    for name in known - set(files):  # of another layout, from another source: nobody vouches for it
        (folder / name).unlink(missing_ok=True)
    write_json(folder / STAMP, {"source": "mirror" if mirror else "official", "files": files})


def bring_folders(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """A tree of class folders that the user unpacked, in place or below the mirror's `folder.name`. Raises Unavailable
    where they are in neither."""
    if not all((folder / part).is_dir() for part in module.FOLDERS):
        source = Path(mirror).expanduser() / folder.name if mirror and not is_url(mirror) else None
        if source is None or not all((source / part).is_dir() for part in module.FOLDERS):
            looked = f"{folder}" + (f" or {source}" if source else "")
            raise Unavailable(f"{module.TITLE}: no folders {', '.join(module.FOLDERS)} in {looked}. {module.HOW}")
        optional = [part for part in module.OPTIONAL if (source / part).is_dir()]
        for part in (*optional, *module.FOLDERS):  # with those of the latter all is there
            _copy_folder(source / part, folder / part)
    _stamp_own(folder, "folder")


def _stamp_own(folder: Path, source: str) -> None:
    """Of files that no checksum is known of: what lies there is remembered, so that other files are noticed."""
    write_json(folder / STAMP, {"source": source, "files": {}, "lies": _lies(folder)})


def changed(folder: Path) -> bool:
    """Whether other files lie there than when they were brought, of a set without checksums."""
    stamp = files.read_json(folder / STAMP)
    return bool(stamp) and stamp.get("lies") not in (None, _lies(folder))


def _lies(folder: Path) -> str:
    """A digest of names, sizes and times of all files but the stamp."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != STAMP)
    told = [(path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns) for path in found]
    return files.digest(repr(told).encode())


def _copy_folder(source: Path, target: Path) -> None:
    """One folder of files, atomically; what lies deeper is not part of the layout."""
    copy = files.part(target)
    try:
        copy.mkdir(parents=True)
        for path in sorted(path for path in source.iterdir() if path.is_file()):
            shutil.copyfile(path, copy / path.name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(copy, target)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    files.sweep(target)


def is_url(mirror: str) -> bool:
    return mirror.startswith(("http://", "https://"))


def _from_release(module: ModuleType, folder: Path) -> dict[str, str]:
    for file in module.FILES:
        path = folder / file.name
        if path.is_file() and md5_of(path) == file.md5:
            continue
        try:
            download(file.urls, path, file.md5)
        except Absent as absent:
            raise UserError(f"{module.TITLE}: {absent}. {MIRROR_HELP}") from None
    return {file.name: file.md5 for file in module.FILES}


def _from_mirror(layouts: tuple[tuple[str, ...], ...], folder: Path, mirror: str) -> dict[str, str]:
    """The first layout that the mirror holds completely. File names come from the layout, never from the mirror. Raises
    Unavailable where a folder holds other sets only, UserError where there is no such folder or an address has nothing."""
    if mirror in _silent:
        raise UserError(_silent[mirror])
    missing = []
    for layout in layouts:
        brought: list[Path] = []
        try:
            for part in layout:
                brought.append(folder / PurePosixPath(part).name)
                _copy_from_mirror(mirror, part, brought[-1])
            return {path.name: md5_of(path) for path in brought}
        except Silent as silent:
            _silent[mirror] = f"data mirror {mirror}: {silent}. Run it again when the mirror answers"
            raise UserError(_silent[mirror]) from None
        except Absent as absent:
            missing.append(str(absent))
            for path in brought:
                path.unlink(missing_ok=True)
    here = not is_url(mirror) and Path(mirror).expanduser().is_dir()
    raise (Unavailable if here else UserError)(
        f"data mirror {mirror}: {'; and '.join(missing)}. "
        "Put the files there, or unset FEDREPRO_DATA_MIRROR and data_mirror to use the official source"
    )


def _copy_from_mirror(mirror: str, part: str, target: Path) -> None:
    if is_url(mirror):
        return download((f"{mirror.rstrip('/')}/{part}",), target)
    source = Path(mirror).expanduser() / part
    if not source.is_file():
        raise Absent(f"{source} is not there")
    with files.replacing(target) as copy:
        shutil.copyfile(source, copy)


def download(urls: tuple[str, ...], target: Path, md5: str | None = None) -> None:
    """One file from the first address that delivers it, resumed where an earlier attempt broke off.

    Raises Absent with every address' reason, Silent where none said that it has no such file. A part is kept for the next
    time only if a checksum will tell whether it fits.
    """
    part = target.with_name(target.name + ".part")
    if md5 is None:
        part.unlink(missing_ok=True)
    reasons, refused = [], False
    for url in urls:
        try:
            reason = _attempts(url, part, md5)
        except Absent as absent:
            reason, refused = str(absent), True
        if reason is None:
            os.replace(part, target)
            return
        log.warning("%s: %s", masked(url), reason)
        reasons.append(f"{url}: {reason}")
    if md5 is None:
        part.unlink(missing_ok=True)
    raise (Absent if refused else Silent)(f"cannot download {target.name} ({'; '.join(reasons)})")


def _attempts(url: str, part: Path, md5: str | None) -> str | None:
    """Downloads into `part`; returns None once it is complete and its checksum holds, else the last failure. Raises Absent
    where the server refuses the file."""
    import requests  # not part of the training core
    import urllib3

    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(BACKOFF * 2 ** (attempt - 1))
        resumed = part.exists()
        try:
            _stream(url, part)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            reason = f"{type(error).__name__}, tried {attempt + 1} times"
            continue
        if md5 is None or md5_of(part) == md5:
            return None
        reason = f"wrong checksum {md5_of(part)}, the release has {md5}"
        part.unlink()
        if not resumed:  # a whole file that is wrong will be wrong again
            return reason
    return reason


def _stream(url: str, part: Path) -> None:
    """Appends to `part` what is missing of `url`. Raises Absent where the server refuses the file."""
    import requests
    from tqdm import tqdm

    start = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # the part is as long as the file, or longer: not a part of this file
            part.unlink(missing_ok=True)
            raise requests.RequestException("range refused")
        if 400 <= response.status_code < 500 and response.status_code not in (408, 429):
            raise Absent(f"HTTP {response.status_code}")
        response.raise_for_status()
        if not (response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")):
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with (
            part.open("ab" if start else "wb") as file,
            # a bar on terminals only
            tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar,
        ):
            for chunk in response.raw.stream(CHUNK, decode_content=False):  # .gz stays .gz whatever the server declares
                bar.update(file.write(chunk))
