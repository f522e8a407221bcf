"""How many claims have which verdict, for whoever opens with it: page, terminal, README. Light: no torch, no matplotlib."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedrepro.files import read_records
from fedrepro.report.spec import VERDICTS
from fedrepro.report.verdicts import RULES


def read(folder: Path) -> list[dict[str, str]]:
    """The verdicts in a paper's `folder` (reports/<scale>/<paper>); none where they were not made."""
    path = folder / "tables" / f"{VERDICTS}.json"
    return read_records(path, "verdict") if path.exists() else []


def tally(verdicts: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Verdict -> how many claims have it, in the order of `RULES`."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    return {status: counts[status] for status in RULES if counts[status]}


def by_artifact(verdicts: Iterable[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Figure or table -> the tally of the claims beside it."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for verdict in verdicts:
        found.setdefault(verdict["artifact"], []).append(verdict)
    return {artifact: tally(own) for artifact, own in found.items()}


def told(counts: Mapping[str, int]) -> str:
    """2 reproduced, 1 partly."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"
