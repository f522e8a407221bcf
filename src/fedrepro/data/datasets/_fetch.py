"""Bring the raw files of a data set into one folder: from the official release, by its checksums, or from the user's mirror.

A folder is complete once it holds `source.json`, which is written last: the source, the md5 of each file, and what a mirror
declares (`_release.py`). Class folders that the user unpacked below a mirror stay there: `place` says where.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType

from fedrepro.core import files
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.core.files import read_json, write_json
from fedrepro.data.datasets import _release
from fedrepro.data.datasets._download import NotFound, Unresponsive, download, md5_of
from fedrepro.data.datasets._release import is_url

STAMP = "source.json"
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


_unresponsive_mirrors: dict[str, str] = {}  # mirror -> the error of one that does not answer: a process waits for it once


@contextmanager
def user_errors(folder: Path) -> Iterator[None]:
    """Turn an operating system's refusal into a UserError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{error.filename or folder}: cannot read or write ({reason}); check permissions and free space"
        ) from None


def has_official_files(module: ModuleType, stamp: dict) -> bool:
    return bool(module.FILES) and stamp["files"] == {file.name: file.md5 for file in module.FILES}


def verified_stamp(folder: Path) -> dict:
    """The folder's stamp, after every file's md5 was compared. Raises UserError, and deletes the stamp, so that the next call
    fetches what changed."""
    stamp = read_json(folder / STAMP, "source", "files")
    if stamp is None:
        raise UserError(f"{folder}: raw files missing or incomplete; fetch the data set first")
    for name, md5 in stamp["files"].items():
        path = folder / name
        if not path.is_file() or md5_of(path) != md5:
            delete_stamp(folder)
            raise UserError(f"{path}: changed or gone since it was fetched; start again, it is fetched again")
    return stamp


def delete_stamp(folder: Path) -> None:
    """Have the next call fetch the raw files again."""
    with user_errors(folder):
        (folder / STAMP).unlink(missing_ok=True)


def files_folder(folder: Path, stamp: dict) -> Path:
    """Where the files of a complete folder lie."""
    return Path(stamp.get("place") or folder)


def is_complete(module: ModuleType, folder: Path, mirror: str | None) -> bool:
    """Whether the raw files are there. Files of a mirror do not count once the official release is asked for, unless they are
    its files, byte for byte."""
    stamp = read_json(folder / STAMP, "source", "files")
    if stamp is None or not all((files_folder(folder, stamp) / name).exists() for name in (*folders(module), *stamp["files"])):
        return False
    return bool(mirror) or stamp["source"] != "mirror" or has_official_files(module, stamp)


def folders(module: ModuleType) -> tuple[str, ...]:
    """The class folders of a data set that the user unpacks."""
    return getattr(module, "FOLDERS", ())


def fetch_raw(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """Make `folder` complete, one process at a time. Raises UserError."""
    with user_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if is_complete(module, folder, mirror):
            return
        with files.single_process(folder.with_name(f".{folder.name}.fetch.lock")):
            if not is_complete(module, folder, mirror):  # by the process that this one waited for
                (_bring_files if module.FILES else _stamp_unpacked)(module, folder, mirror)


def check_available(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """Raise what `bring` would, as far as the files on this machine tell it: Unavailable or UserError. Fetches nothing."""
    with user_errors(folder):
        if is_complete(module, folder, mirror):
            return
        _unpacked_folder(module, folder, mirror)
        if module.FILES and mirror and not is_url(mirror):
            absent = [[path for part in layout if not (path := _in_mirror(mirror, part)).is_file()] for layout in module.MIRROR]
            if all(absent):
                raise _incomplete_mirror(mirror, [f"{paths[0]} is not there" for paths in absent])


def _bring_files(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """Fetch all files of a set, then write the stamp. Raises UserError."""
    delete_stamp(folder)
    found = _from_mirror(module.MIRROR, folder, mirror) if mirror else _from_release(module, folder)
    for name in {PurePosixPath(part).name for layout in module.MIRROR for part in layout} - set(found):
        (folder / name).unlink(missing_ok=True)  # of another layout or source: no checksum covers it
    stamp = {"source": "mirror" if mirror else "official", "files": found}
    if mirror:
        releases = _release.declared(folder.parent, mirror) or {}
        stamp["releases"] = {key: entry.model_dump() for key, entry in releases.items()}
    write_json(folder / STAMP, stamp)


def _stamp_unpacked(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """Of files without checksums: remember what lies there, so that a change is noticed. Raises Unavailable."""
    source = "folder" if folders(module) else getattr(module, "SOURCE", "own")
    where = _unpacked_folder(module, folder, mirror)
    values = {"source": source, "files": {}, "lies": _listing(where)}
    write_json(folder / STAMP, values if where == folder else values | {"place": str(where.resolve())})


def _unpacked_folder(module: ModuleType, folder: Path, mirror: str | None) -> Path:
    """Where the class folders are: in `folder`, or below the mirror. Raises Unavailable."""
    places = [folder, _in_mirror(mirror, folder.name)] if mirror and not is_url(mirror) else [folder]
    for where in places:
        if all((where / part).is_dir() for part in folders(module)):
            return where
    looked = " or ".join(map(str, places))
    raise DataUnavailable(f"{module.TITLE}: no folders {', '.join(folders(module))} in {looked}. {module.HOW}")


def discard(folder: Path, stamp: dict) -> str:
    """Have raw files that cannot be read fetched again if they are a mirror's. Return what to do."""
    if stamp["source"] != "mirror":
        return "mend it and run again"
    delete_stamp(folder)
    return "mend it in the data mirror and run again: it is fetched again"


def has_changed(folder: Path) -> bool:
    """Whether other files lie there than when they were brought, of a set without checksums."""
    stamp = read_json(folder / STAMP) or {}
    where = files_folder(folder, stamp)
    return "lies" in stamp and where.is_dir() and stamp["lies"] != _listing(where)


def _listing(folder: Path) -> str:
    """A digest of names, sizes and times of all files but the stamp and a file manager's notes, which begin with a dot."""
    found, seen = [], set()
    for root, inner, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(root)) in seen:  # a ring of links
            inner.clear()
            continue
        seen.add(real)
        inner[:] = [name for name in inner if not name.startswith(".")]
        paths = (Path(root, name) for name in names if not name.startswith(".") and name != STAMP)
        found += [(path.relative_to(folder).as_posix(), path.stat()) for path in paths if path.is_file()]
    return files.sha256(repr(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)).encode())


def _from_release(module: ModuleType, folder: Path) -> dict[str, str]:
    for file in module.FILES:
        path = folder / file.name
        if path.is_file() and md5_of(path) == file.md5:
            continue
        try:
            download(file.urls, path, file.md5)
        except NotFound as absent:
            raise UserError(f"{module.TITLE}: {absent}. {MIRROR_HELP}") from None
    return {file.name: file.md5 for file in module.FILES}


def _from_mirror(layouts: tuple[tuple[str, ...], ...], folder: Path, mirror: str) -> dict[str, str]:
    """The first layout that the mirror holds completely. File names come from the layout, never from the mirror. Raises
    Unavailable where a folder holds other sets only, UserError where there is no such folder or an address has nothing."""
    if mirror in _unresponsive_mirrors:
        raise UserError(_unresponsive_mirrors[mirror])
    missing, brought = [], []
    try:
        _release.fetch_declaration(folder.parent, mirror)
        for layout in layouts:
            try:
                for part in layout:
                    brought.append(folder / PurePosixPath(part).name)
                    _copy_from_mirror(mirror, part, brought[-1])
                return {path.name: md5_of(path) for path in brought}
            except Unresponsive:
                raise
            except NotFound as absent:
                missing.append(str(absent))
                while brought:
                    brought.pop().unlink(missing_ok=True)
    except Unresponsive as silent:
        _unresponsive_mirrors[mirror] = f"data mirror {mirror}: {silent}. Run it again when the mirror answers"
        raise UserError(_unresponsive_mirrors[mirror]) from None
    raise _incomplete_mirror(mirror, missing)


def _incomplete_mirror(mirror: str, missing: list[str]) -> UserError:
    """The error for a mirror without a complete layout of a set. `missing`: the first absent file of each layout."""
    here = not is_url(mirror) and Path(mirror).expanduser().is_dir()
    return (DataUnavailable if here else UserError)(
        f"data mirror {mirror}: {'; and '.join(missing)}. "
        "Put the files there, or unset FEDREPRO_DATA_MIRROR and data_mirror to use the official source"
    )


def _in_mirror(mirror: str, part: str) -> Path:
    return Path(mirror).expanduser() / part


def _copy_from_mirror(mirror: str, part: str, target: Path) -> None:
    if is_url(mirror):
        return download((f"{mirror.rstrip('/')}/{part}",), target)
    source = _in_mirror(mirror, part)
    if not source.is_file():
        raise NotFound(f"{source} is not there")
    with files.atomic_write(target) as copy:
        shutil.copyfile(source, copy)
