"""How many claims have which verdict, for whoever opens with it: page, terminal, README. Light: no torch, no matplotlib."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrepro.core.files import read_records
from fedrepro.report.statistics import POWER, holm
from fedrepro.report.verdicts.rules import RULES, Status

VERDICTS = "verdicts"  # the table that every paper has
PAPER, US = "the paper", "us"  # by whom a claim is made
LEVEL = 0.05  # of a test


def read_verdicts(folder: Path) -> list[dict[str, str]]:
    """The verdicts in a paper's `folder` (reports/<scale>/<paper>); none where they were not made."""
    path = folder / "tables" / f"{VERDICTS}.json"
    return read_records(path, "verdict") if path.exists() else []


def tally(verdicts: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Verdict -> how many claims have it, in the order of `RULES`."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    return {status: counts[status] for status in RULES if counts[status]}


def claimed_by(verdicts: Iterable[Mapping[str, str]], by: str) -> list[Mapping[str, str]]:
    """Those on claims of the paper, or on questions that we ask beside them."""
    return [verdict for verdict in verdicts if verdict["by"] == by]


def differences(verdicts: Iterable[Mapping[str, Any]]) -> tuple[int, int, int]:
    """How many differences were tested against zero, each once, how many have an interval without it, and what is left of them
    when all are corrected together."""
    tests = distinct_tests(verdicts)
    return len(tests), sum(p < LEVEL for p in tests.values()), sum(p <= LEVEL for p in holm(tests).values())


def distinct_tests(verdicts: Iterable[Mapping[str, Any]]) -> dict[tuple, float]:
    """Return the p value of each test against zero, once however many claims share it."""
    return {test_key(verdict): verdict["p"] for verdict in verdicts if verdict["p"] is not None}


def test_key(verdict: Mapping[str, Any]) -> tuple:
    """What makes two tests the same: mean, interval, seeds and p."""
    return verdict["mean"], verdict["half_width"], verdict["seeds"], verdict["p"]


def multiple_testing_note(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """How many differences were tested, what of it would be chance, how many claims were listed late, and how many undecided
    ones had seeds enough; empty where nothing was tested."""
    verdicts = list(verdicts)
    tested, decided, left = differences(verdicts)
    if not tested:
        return ""
    late = sum(verdict.get("registered_after_results") == "yes" for verdict in verdicts if verdict["p"] is not None)
    unsure = [one for one in verdicts if one.get("verdict") == Status.UNDECIDED and one.get("seeds_needed")]
    enough = sum(one["seeds_needed"] <= one["seeds"] for one in unsure)
    parts = [
        f"Differences over seeds tested against zero: {tested}",
        f"with an interval without it: {decided} (by chance alone at most {LEVEL * tested:.1f})",
        f"left when corrected together (Holm, {100 * LEVEL:g} %): {left}",
    ]
    parts += [f"claims on them listed after the runs had been seen: {late}"] if late else []
    powered = f"with seeds enough to show one as large in {100 * POWER:.0f} % of tries: {enough}"
    parts += [f"undecided ones whose size the paper reports: {len(unsure)}", powered] if unsure else []
    return "; ".join(parts)


def format_counts(counts: Mapping[str, int]) -> str:
    """2 reproduced, 1 partly."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"


def summary(verdicts: Iterable[Mapping[str, str]], none: str = "") -> str:
    """2 reproduced, 1 partly; asked by us: 1 undecided. `none`: said where no claim of the paper is among them."""
    published, own = (tally(claimed_by(verdicts, by)) for by in (PAPER, US))
    asked = f"asked by us: {format_counts(own)}" if own else ""
    return "; ".join(filter(None, [format_counts(published) if published or not own else none, asked]))
