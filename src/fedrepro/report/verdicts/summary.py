"""Counts of verdicts, for pages and the terminal. Quick to import: no torch, no matplotlib."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrepro.core.files import read_records
from fedrepro.report.statistics import POWER, holm
from fedrepro.report.verdicts.rules import RULES, Status

VERDICTS = "verdicts"  # the name of the table of verdicts that every paper has
PAPER, US = "the paper", "us"  # values of `by`: who makes a claim
LEVEL = 0.05  # significance level
REGISTERED_IN = "registered in "  # begins `registered` of a claim that stood in the commit of every run


def read_verdicts(folder: Path) -> list[dict[str, str]]:
    """Return the records of verdicts in a paper's `folder` (reports/<scale>/<paper>); none if there is no such file."""
    path = folder / "tables" / f"{VERDICTS}.json"
    return read_records(path, "verdict") if path.exists() else []


def tally(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return status -> number of verdicts that have it, in the order of `RULES`."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    return {status: counts[status] for status in RULES if counts[status]}


def claimed_by(verdicts: Iterable[Mapping[str, str]], by: str) -> list[Mapping[str, str]]:
    """Return the verdicts on claims of `PAPER`, or on our own questions (`US`)."""
    return [verdict for verdict in verdicts if verdict["by"] == by]


def count_tests(verdicts: Iterable[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Return how many differences were tested against zero, how many are significant, and how many after correction."""
    tests = distinct_tests(verdicts)
    return len(tests), sum(p < LEVEL for p in tests.values()), sum(p <= LEVEL for p in holm(tests).values())


def distinct_tests(verdicts: Iterable[Mapping[str, Any]]) -> dict[tuple, float]:
    """Return test -> p-value of all tests against zero. Claims may share a test, which counts once."""
    return {test_key(verdict): verdict["p"] for verdict in verdicts if verdict["p"] is not None}


def test_key(verdict: Mapping[str, Any]) -> tuple:
    """Return the key of a verdict's test, the same for claims on the same difference: mean, interval, seeds and p."""
    return verdict["mean"], verdict["half_width"], verdict["seeds"], verdict["p"]


def count_registered(verdicts: Iterable[Mapping[str, Any]]) -> int:
    """Return how many verdicts are on claims that were registered before their first run."""
    return sum(verdict["registered"].startswith(REGISTERED_IN) for verdict in verdicts)


def multiple_testing_note(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence on multiple testing; empty if no difference was tested.

    It holds the number of tests, of significant ones, and of these after correction; the registered claims; and the undecided
    ones, with how many had enough seeds to detect a difference of the reported size.
    """
    verdicts = list(verdicts)
    tested, decided, left = count_tests(verdicts)
    if not tested:
        return ""
    registered = count_registered(verdict for verdict in verdicts if verdict["p"] is not None)
    unsure = [verdict for verdict in verdicts if verdict.get("verdict") == Status.UNDECIDED and verdict.get("seeds_needed")]
    enough = sum(verdict["seeds_needed"] <= verdict["seeds"] for verdict in unsure)
    parts = [
        f"Differences over seeds tested against zero: {tested}",
        f"intervals that exclude zero: {decided} (expected by chance alone: at most {LEVEL * tested:.1f})",
        f"of these significant after correction for the number of tests (Holm, {100 * LEVEL:g} %): {left}",
    ]
    parts.append(f"claims on them registered before their first run: {registered}")
    powered = f"of these with enough seeds to detect a difference of that size in {100 * POWER:.0f} % of tries: {enough}"
    parts += [f"undecided differences whose size the paper reports: {len(unsure)}", powered] if unsure else []
    return "; ".join(parts)


def format_counts(counts: Mapping[str, int]) -> str:
    """Return e.g. "2 reproduced, 1 partly"."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"


def summary(verdicts: Iterable[Mapping[str, str]], none: str = "") -> str:
    """Return e.g. "2 reproduced, 1 partly; asked by us: 1 undecided". `none` replaces the first part if the paper makes no
    claim, but we ask a question."""
    published, own = (tally(claimed_by(verdicts, by)) for by in (PAPER, US))
    asked = f"asked by us: {format_counts(own)}" if own else ""
    return "; ".join(filter(None, [format_counts(published) if published or not own else none, asked]))
