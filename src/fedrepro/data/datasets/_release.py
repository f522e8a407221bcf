"""A mirror's declaration of its copies: its file release.json, {data set: {"release": a name,
"pixels": the arrays' checksum}}.

A data set that it does not name is the official release. The file of a URL is stored with the raw
data, so that planning needs no network.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedrepro.config.types import Frozen, parse
from fedrepro.core import files
from fedrepro.core.errors import UserError
from fedrepro.data.datasets._download import NotFound, Unresponsive, download

NAME = "release.json"
MAX_BYTES = 1 << 20


class Release(Frozen):
    """A release other than the official one."""

    release: Annotated[str, Field(pattern=r"^[\w.,:+-]+( [\w.,:+-]+)*$", max_length=60)]
    pixels: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def is_url(mirror: str) -> bool:
    return mirror.startswith(("http://", "https://"))


def declaration_path(raw: Path, mirror: str) -> Path:
    """Return the file from which a mirror's declaration is read."""
    return (
        raw / f"release-{files.sha256(mirror)[:8]}.json"
        if is_url(mirror)
        else Path(mirror).expanduser() / NAME
    )


def declared(raw: Path, mirror: str) -> dict[str, Release] | None:
    """Return the releases that a mirror declares, by the name of the prepared folder. None if they
    are not known here: of a URL that was never read, or of a folder that is gone. Raises UserError
    for a damaged declaration."""
    path = declaration_path(raw, mirror)
    if (values := files.read_json(path, advice="correct it")) is None:
        return None if is_url(mirror) or not path.parent.is_dir() else {}
    return {key: parse(Release, entry, f"{path}: {key}") for key, entry in values.items()}


def fetch_declaration(raw: Path, mirror: str) -> None:
    """Download and store the declaration of a URL, without one that it declares nothing. Raises
    UserError if it is not the one with which runs were planned, Unresponsive without an answer."""
    if not is_url(mirror):
        return
    path = declaration_path(raw, mirror)
    with files.single_process(path.with_name(f".{path.name}.lock")):  # all data sets share the file
        previous = declared(raw, mirror)
        try:
            download((f"{mirror.rstrip('/')}/{NAME}",), path, max_bytes=MAX_BYTES)
        except Unresponsive:
            raise
        except NotFound:
            files.write_json(path, {})
        try:
            changed = previous not in (None, declared(raw, mirror))
        except UserError:
            path.unlink()
            raise
    if changed:
        raise UserError(
            f"{mirror}/{NAME}: changed what it declares. Start the same command again, it plans "
            f"with that."
        )


def check_declared(key: str, meta: dict, stamp: dict) -> str | None:
    """Return what is wrong with a prepared copy from a mirror, compared with the declaration; None
    if nothing is."""
    if "releases" not in stamp:  # not a mirror's, or fetched before mirrors declared anything
        return None
    where, entry = f"{NAME} of the data mirror: {key}", stamp["releases"].get(key)
    if entry is None and not meta["official"]:
        example = f'"{key}": {{"release": "a name", "pixels": "{meta["pixels"]}"}}'
        return (
            f"{where}: not declared, though the files are not the official release. Declare "
            f"what they are: {example}"
        )
    if entry is not None and entry["pixels"] != meta["identity"]:
        actual = "the official release" if meta["official"] else meta["identity"]
        return (
            f"{where}.pixels: {entry['pixels']}, but the files hold {actual}. Correct the "
            f"file or the data"
        )
    return None
