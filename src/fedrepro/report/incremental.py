"""One job for all of a paper's artifacts that makes anew only what has changed, told by content.

Snakemake sees stamps: `<artifact>-<digest of all that is known before the job>`, and `all-<digest>`. A change of settings, code
or runs asks for another stamp; back again, the old stamp counts only while nobody has made the artifact differently since, for
whoever makes one removes its other stamps. In the job a ledger tells which artifacts differ: digests of the numbers, the
settings and the code that each was made from, and of the files as they were left.
"""

import glob
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.core.files import alone, read_json, replacing
from fedrepro.core.provenance import digest
from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.paper import Paper
from fedrepro.runs.gather import Gathering, gather

log = logging.getLogger(__name__)
ALL, LEDGER = "all", "ledger.json"
GATHERED = ""  # in the ledger: the numbers that were gathered here


def refresh(
    paper: Paper, wanted: Mapping[str, str], folder: Path, gathered: Mapping[str, Gathering], stamps: Path, code: str
) -> list[str]:
    """Bring the artifacts `wanted`, each with the digest of its stamp, up to date below `folder`: gather (`gathered`, by
    source), draw what differs, delete what was made here of artifacts that the paper has no more.
    `code` is the digest of what draws. Returns what was made."""
    with alone(stamps / "lock"):  # two artifacts of a paper may gather the same numbers
        forget(stamps, ALL)
        for given in gathered.values():
            gather(given, folder / "data")
        ledger = _read(stamps / LEDGER)
        origins = {key: _origin(paper, key, folder, code) for key in wanted}
        made = [key for key in wanted if ledger.get(key) != [origins[key], _left(paper, key, folder)]]
        for key in wanted:
            forget(stamps, key)
        artifacts.make(paper, made, folder)
        ledger |= {key: [origins[key], _left(paper, key, folder)] for key in made}
        for key in ledger.keys() - {GATHERED, *paper.artifacts}:
            _clear(key, ("figures", "tables"), folder)
            del ledger[key]
        sources, known = {*ledger.get(GATHERED, ()), *gathered}, paper.sources()
        for source in sources.difference(known):  # an experiment or study that no artifact shows any more
            _clear(source, ("data",), folder)
        ledger[GATHERED] = sorted(sources.intersection(known))
        with replacing(stamps / LEDGER) as path:
            path.write_text(json.dumps(ledger, indent=1) + "\n", encoding="utf-8")
        for key, known in wanted.items():
            stamp(stamps, key, known).touch()
    return made


def stamp(stamps: Path, key: str, known: str) -> Path:
    """The file that says that an artifact is up to date."""
    return stamps / f"{key}-{known}"


def forget(stamps: Path, key: str) -> None:
    for path in stamps.glob(f"{key}-*"):
        path.unlink()


def distrust(paper: Paper, folder: Path, stamps: Path) -> None:
    """Forget the stamps of artifacts whose files are gone or not as they were left, as after a checkout."""
    ledger = _read(stamps / LEDGER)
    for key in paper.artifacts:
        told, there = ledger.get(key), all((folder / name).exists() for name in artifacts.files(paper, key))
        if not there or (told and told[1] != _left(paper, key, folder)):
            forget(stamps, key)
            forget(stamps, ALL)
    if not all((folder / name).exists() for name in artifacts.data(paper)):
        forget(stamps, ALL)


def _clear(key: str, rooms: Iterable[str], folder: Path) -> None:
    """Away with the files of what the paper has no more."""
    for path in (found for room in rooms for found in (folder / room).glob(f"{glob.escape(key)}.*")):
        path.unlink()
    log.info("%s: of earlier settings, its files are gone", key)


def _origin(paper: Paper, key: str, folder: Path, code: str) -> str:
    """Of the numbers, the settings and the code."""
    numbers = _hashes(folder / name for name in artifacts.data(paper, [key]))
    return digest([spec.identity(paper, [key]), code, numbers])


def _left(paper: Paper, key: str, folder: Path) -> str:
    """Of the files."""
    return digest(_hashes(folder / name for name in artifacts.files(paper, key)))


def _hashes(paths: Iterable[Path]) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "" for path in paths]


def _read(path: Path) -> dict[str, list[str]]:
    """Empty where there is none, or a damaged one: then all is made anew."""
    try:
        return read_json(path) or {}
    except UserError as error:
        log.warning("%s", error)
        return {}
