"""Fetching of a data set's raw files: from the official release, by its checksums, or from the
user's mirror.

A folder is complete once it holds `source.json`, the stamp, which is written last: the source, the
md5 of each file, and what a mirror declares (`_release.py`). Class folders that the user unpacked
below a mirror stay there; the stamp's `place` is their folder, and `lies` the digest of their
listing.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from fedrepro.core import files
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.core.files import read_json, write_json
from fedrepro.data.datasets import _release
from fedrepro.data.datasets._download import MAX_BYTES, NotFound, Unresponsive, download, md5_of
from fedrepro.data.datasets._release import is_url
from fedrepro.data.datasets.source import DataSource

STAMP = "source.json"
MIRROR_HELP = (
    "Without internet, let a folder or URL that holds the data serve: set FEDREPRO_DATA_MIRROR, or "
    "pass `--config data_mirror=PATH_OR_URL` to snakemake, `--data-mirror PATH_OR_URL` to fedrepro"
)
_unresponsive_mirrors: dict[str, str] = {}  # mirror -> error; a process waits for one only once


@contextmanager
def user_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError in the block into a UserError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{error.filename or folder}: cannot read or write ({reason}); check permissions and "
            f"free space"
        ) from None


def has_official_files(source: DataSource, stamp: dict) -> bool:
    return bool(source.files) and stamp["files"] == {file.name: file.md5 for file in source.files}


def verified_stamp(folder: Path) -> dict:
    """Return the folder's stamp if every file's md5 matches. Else raise UserError and delete the
    stamp, so that the next call fetches what changed."""
    stamp = read_json(folder / STAMP, "source", "files")
    if stamp is None:
        raise UserError(f"{folder}: raw files missing or incomplete; fetch the data set first")
    for name, md5 in stamp["files"].items():
        path = folder / name
        if not path.is_file() or md5_of(path) != md5:
            delete_stamp(folder)
            raise UserError(
                f"{path}: changed or gone since it was fetched; start again, it is fetched again"
            )
    return stamp


def delete_stamp(folder: Path) -> None:
    """Make the next call fetch the raw files again."""
    with user_errors(folder):
        (folder / STAMP).unlink(missing_ok=True)


def files_folder(folder: Path, stamp: dict) -> Path:
    """Return the folder with the files of a complete data set."""
    return Path(stamp.get("place") or folder)


def is_complete(source: DataSource, folder: Path, mirror: str | None) -> bool:
    """Return whether the raw files are there. Without a mirror, files that came from one do not
    count, unless they are the official release's, byte for byte."""
    stamp = read_json(folder / STAMP, "source", "files")
    if stamp is None or not all(
        (files_folder(folder, stamp) / name).exists() for name in (*source.folders, *stamp["files"])
    ):
        return False
    return bool(mirror) or stamp["source"] != "mirror" or has_official_files(source, stamp)


def ask_mirror(raw: Path, mirror: str) -> None:
    """Fetch the declaration of a URL. Raises UserError if it has changed, or without an answer."""
    with _asked_once(mirror):
        _release.fetch_declaration(raw, mirror)


@contextmanager
def _asked_once(mirror: str) -> Iterator[None]:
    """Turn an Unresponsive in the block into a UserError, at once if this process has waited for
    the mirror before."""
    if mirror in _unresponsive_mirrors:
        raise UserError(_unresponsive_mirrors[mirror])
    try:
        yield
    except Unresponsive as error:
        _unresponsive_mirrors[mirror] = (
            f"data mirror {mirror}: {error}. Run it again when the mirror answers"
        )
        raise UserError(_unresponsive_mirrors[mirror]) from None


def fetch_raw(
    source: DataSource, folder: Path, mirror: str | None, place: Path | None = None
) -> None:
    """Make a folder of raw files complete, one process at a time; or stamp the user's own file or
    folder at `place`. Raises UserError."""
    with user_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if is_complete(source, folder, mirror):
            return
        with files.single_process(folder.with_name(f".{folder.name}.fetch.lock")):
            if not is_complete(source, folder, mirror):  # by the process that this one waited for
                if source.files:
                    _fetch_files(source, folder, mirror)
                else:
                    _stamp_unpacked(
                        source, folder, place or _unpacked_folder(source, folder, mirror)
                    )


def check_available(source: DataSource, folder: Path, mirror: str | None) -> None:
    """Raise the DataUnavailable or UserError of `fetch_raw`, as far as that needs no network.
    Fetches nothing."""
    with user_errors(folder):
        if is_complete(source, folder, mirror):
            return
        _unpacked_folder(source, folder, mirror)
        if source.files and mirror and not is_url(mirror):
            absent = [
                [path for part in layout if not (path := _in_mirror(mirror, part)).is_file()]
                for layout in source.mirror
            ]
            if all(absent):
                raise _incomplete_mirror(mirror, [f"{paths[0]} is not there" for paths in absent])


def _fetch_files(source: DataSource, folder: Path, mirror: str | None) -> None:
    """Fetch all files of a data set, then write the stamp. Raises UserError."""
    delete_stamp(folder)
    fetched = (
        _from_mirror(source.mirror, folder, mirror) if mirror else _from_release(source, folder)
    )
    for name in {PurePosixPath(part).name for layout in source.mirror for part in layout} - set(
        fetched
    ):
        # of another layout or source: no checksum covers it
        (folder / name).unlink(missing_ok=True)
    stamp = {"source": "mirror" if mirror else "official", "files": fetched}
    if mirror:
        releases = _release.declared(folder.parent, mirror) or {}
        stamp["releases"] = {key: entry.model_dump() for key, entry in releases.items()}
    write_json(folder / STAMP, stamp)


def _stamp_unpacked(source: DataSource, folder: Path, where: Path) -> None:
    """Write the stamp of files in `where` without checksums, with a digest of their listing to
    notice changes."""
    values = {
        "source": "folder" if source.folders else source.source,
        "files": {},
        "lies": _listing(where),
    }
    write_json(
        folder / STAMP, values if where == folder else values | {"place": str(where.resolve())}
    )


def _unpacked_folder(source: DataSource, folder: Path, mirror: str | None) -> Path:
    """Return the folder of the class folders: `folder`, or one below the mirror. Raises
    DataUnavailable."""
    places = (
        [folder, _in_mirror(mirror, folder.name)] if mirror and not is_url(mirror) else [folder]
    )
    for where in places:
        if all((where / part).is_dir() for part in source.folders):
            return where
    looked = " or ".join(map(str, places))
    raise DataUnavailable(
        f"{source.title}: no folders {', '.join(source.folders)} in {looked}. {source.how}"
    )


def discard(folder: Path, stamp: dict) -> str:
    """Make the next call fetch unreadable raw files again if they are a mirror's. Return what the
    user should do."""
    if stamp["source"] != "mirror":
        return "mend it and run again"
    delete_stamp(folder)
    return "mend it in the data mirror and run again: it is fetched again"


def has_changed(folder: Path, place: Path | None = None) -> bool:
    """Return whether the files of a data set without checksums differ from those that were stamped.
    `place`: where they are today, since a link may lead elsewhere than before."""
    stamp = read_json(folder / STAMP) or {}
    where = place or files_folder(folder, stamp)
    return "lies" in stamp and where.is_dir() and stamp["lies"] != _listing(where)


def _listing(folder: Path) -> str:
    """Return a digest of names, sizes and times of all files, without the stamp and hidden
    files."""
    listing: list[tuple[str, int, int]] = []
    seen: set[str] = set()
    for root, subfolders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(root)) in seen:  # a cycle of links
            subfolders.clear()
            continue
        seen.add(real)
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for path in (
            Path(root, name) for name in names if not name.startswith(".") and name != STAMP
        ):
            if path.is_file():
                listing.append(
                    (
                        path.relative_to(folder).as_posix(),
                        path.stat().st_size,
                        path.stat().st_mtime_ns,
                    )
                )
    return files.sha256(repr(sorted(listing)).encode())


def _from_release(source: DataSource, folder: Path) -> dict[str, str]:
    for file in source.files:
        path = folder / file.name
        if path.is_file() and md5_of(path) == file.md5:
            continue
        try:
            download(file.urls, path, file.md5)
        except NotFound as error:
            raise UserError(f"{source.title}: {error}. {MIRROR_HELP}") from None
    return {file.name: file.md5 for file in source.files}


def _from_mirror(layouts: tuple[tuple[str, ...], ...], folder: Path, mirror: str) -> dict[str, str]:
    """Copy the first layout that the mirror holds completely and return the md5 of each file by
    name.

    File names come from the layout, never from the mirror.

    Raises DataUnavailable if a folder has only other data sets, UserError if there is no such
    folder or a URL has nothing.
    """
    missing: list[str] = []  # the first absent file of each layout
    copied: list[Path] = []
    with _asked_once(mirror):
        _release.fetch_declaration(folder.parent, mirror)
        for layout in layouts:
            try:
                for part in layout:
                    copied.append(folder / PurePosixPath(part).name)
                    _copy_from_mirror(mirror, part, copied[-1])
                return {path.name: md5_of(path) for path in copied}
            except Unresponsive:
                raise
            except NotFound as error:
                missing.append(str(error))
                while copied:
                    copied.pop().unlink(missing_ok=True)
    raise _incomplete_mirror(mirror, missing)


def _incomplete_mirror(mirror: str, missing: list[str]) -> UserError:
    """Return the error for a mirror without a complete layout, of which `missing` names the first
    absent file of each."""
    exists = not is_url(mirror) and Path(mirror).expanduser().is_dir()
    return (DataUnavailable if exists else UserError)(
        f"data mirror {mirror}: {'; and '.join(missing)}. Put the files there, or unset "
        "FEDREPRO_DATA_MIRROR and data_mirror to use the official source"
    )


def _in_mirror(mirror: str, part: str) -> Path:
    return Path(mirror).expanduser() / part


def _copy_from_mirror(mirror: str, part: str, target: Path) -> None:
    if is_url(mirror):
        return download((f"{mirror.rstrip('/')}/{part}",), target)
    path = _in_mirror(mirror, part)
    if not path.is_file():
        raise NotFound(f"{path} is not there")
    if path.stat().st_size > MAX_BYTES:
        raise NotFound(f"{path} has more than {MAX_BYTES} bytes (MAX_BYTES)")
    with files.atomic_write(target) as copy:
        shutil.copyfile(path, copy)
