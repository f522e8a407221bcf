"""Bring the raw files of a data set into one folder: from the official release, checksums held, or from the user's mirror.

A folder is complete once it holds `source.json`: {"source": where from, "files": {file name: md5}}; it is written last.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType

from fedrepro.core import files
from fedrepro.core.errors import Unavailable, UserError
from fedrepro.core.files import read_json, write_json
from fedrepro.data.datasets._download import Absent, Silent, download, md5_of

STAMP = "source.json"
REJECTED = ".rejected"  # which copies of a mirror's folders cannot be read: while they lie there, they are copied again
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


def check(module: ModuleType, folder: Path, mirror: str | None) -> None:
    """Raise what `bring` would, as far as the files on this machine tell it: Unavailable or UserError. Fetches nothing."""
    with writing(folder):
        if is_complete(module, folder, mirror):
            return
        if hasattr(module, "FOLDERS"):
            _unpacked(module, folder, mirror)
        elif mirror and not is_url(mirror):
            absent = [[path for part in layout if not (path := _in_mirror(mirror, part)).is_file()] for layout in module.MIRROR]
            if module.FILES and all(absent):
                raise _lacks(mirror, [f"{paths[0]} is not there" for paths in absent])


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
    if (source := _unpacked(module, folder, mirror)) != folder:
        optional = [part for part in module.OPTIONAL if (source / part).is_dir()]
        parts = [*optional, *module.FOLDERS]  # with those of the latter all is there
        for part in parts:
            _copy_folder(source / part, folder / part, deep=not any(other.startswith(f"{part}/") for other in parts))
        _stamp_own(folder, "folder", copied=True)
    else:
        _stamp_own(folder, "folder")
    (folder / REJECTED).unlink(missing_ok=True)


def _unpacked(module: ModuleType, folder: Path, mirror: str | None) -> Path:
    """Where the class folders are: in `folder`, or below the mirror, which comes first while `folder` holds what was rejected.
    Raises Unavailable."""
    places = [folder, _in_mirror(mirror, folder.name)] if mirror and not is_url(mirror) else [folder]
    rejected = folder / REJECTED
    refused = rejected.exists() and rejected.read_text(encoding="utf-8") == _lies(folder)
    for place in reversed(places) if refused else places:
        if all((place / part).is_dir() for part in module.FOLDERS):
            return place
    looked = " or ".join(map(str, places))
    raise Unavailable(f"{module.TITLE}: no folders {', '.join(module.FOLDERS)} in {looked}. {module.HOW}")


def _stamp_own(folder: Path, source: str, copied: bool = False) -> None:
    """Of files that no checksum is known of: what lies there is remembered, so that other files are noticed. `copied`: from
    a mirror."""
    write_json(folder / STAMP, {"source": source, "files": {}, "lies": _lies(folder), "copied": copied})


def reject(folder: Path, stamp: dict) -> str:
    """Have raw files that cannot be read fetched again if they are a mirror's. Return what to do."""
    if not stamp.get("copied") and stamp["source"] != "mirror":
        return "mend it and run again"
    with writing(folder):
        if stamp.get("copied"):
            (folder / REJECTED).write_text(stamp["lies"], encoding="utf-8")
        (folder / STAMP).unlink(missing_ok=True)
    return "mend it in the data mirror and run again: it is fetched anew"


def changed(folder: Path) -> bool:
    """Whether other files lie there than when they were brought, of a set without checksums."""
    stamp = files.read_json(folder / STAMP)
    return bool(stamp) and stamp.get("lies") not in (None, _lies(folder))


def _lies(folder: Path) -> str:
    """A digest of names, sizes and times of all files but the stamp."""
    found = sorted(path for path in _below(folder) if path.name != STAMP)
    told = [(path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns) for path in found]
    return files.digest(repr(told).encode())


def _below(folder: Path, deep: bool = True) -> Iterator[Path]:
    """All files in a folder, `deep`: also in those in it and behind links. A file manager's notes begin with a dot, and do not
    count."""
    seen = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        place = os.path.realpath(root)
        folders[:] = sorted(name for name in folders if deep and place not in seen and not name.startswith("."))
        if place not in seen:  # else a ring of links
            paths = (Path(root, name) for name in names if not name.startswith("."))
            yield from (path for path in paths if path.is_file())
        seen.add(place)


def _copy_folder(source: Path, target: Path, deep: bool) -> None:
    """One folder of files, atomically; `deep`: with the folders in it, else those are not part of the layout."""
    copy = files.part(target)
    try:
        copy.mkdir(parents=True)
        for path in sorted(_below(source, deep)):
            place = copy / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
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
    raise _lacks(mirror, missing)


def _lacks(mirror: str, missing: list[str]) -> UserError:
    """The error for a mirror without a complete layout of a set. `missing`: the first absent file of each layout."""
    here = not is_url(mirror) and Path(mirror).expanduser().is_dir()
    return (Unavailable if here else UserError)(
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
        raise Absent(f"{source} is not there")
    with files.replacing(target) as copy:
        shutil.copyfile(source, copy)
