"""How many claims have which verdict, for whoever opens with it: page, terminal, README. Light: no torch, no matplotlib."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrepro.files import read_records
from fedrepro.report.rules import RULES
from fedrepro.report.spec import VERDICTS
from fedrepro.words import count

PAPER, US = "the paper", "us"  # by whom a claim is made


LEVEL = 0.05  # of a test


def read(folder: Path) -> list[dict[str, str]]:
    """The verdicts in a paper's `folder` (reports/<scale>/<paper>); none where they were not made."""
    path = folder / "tables" / f"{VERDICTS}.json"
    return read_records(path, "verdict") if path.exists() else []


def tally(verdicts: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Verdict -> how many claims have it, in the order of `RULES`."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    return {status: counts[status] for status in RULES if counts[status]}


def made(verdicts: Iterable[Mapping[str, str]], by: str) -> list[Mapping[str, str]]:
    """Those on claims of the paper, or on questions that we ask beside them."""
    return [verdict for verdict in verdicts if verdict["by"] == by]


def differences(verdicts: Iterable[Mapping[str, Any]]) -> tuple[int, int, int]:
    """How many differences were tested against zero, each once, how many have an interval without it, and what is left of them
    when all are corrected together (Holm 1979)."""
    told = {(verdict["mean"], verdict["half_width"], verdict["seeds"], verdict["p"]) for verdict in verdicts}
    found = sorted(p for *_, p in told if p is not None)
    least = [p <= LEVEL / (len(found) - place) for place, p in enumerate(found)]
    left = next((place for place, passes in enumerate(least) if not passes), len(found))
    return len(found), sum(p < LEVEL for p in found), left


def chance(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """How many differences were tested, what of it would be chance, and how many claims were listed late; empty where there is
    none."""
    verdicts = list(verdicts)
    tested, decided, left = differences(verdicts)
    if not tested:
        return ""
    late = sum(verdict.get("afterwards") == "yes" for verdict in verdicts if verdict["p"] is not None)
    told = f"{count(tested, 'difference')} over seeds {_form(tested, 'was', 'were')} tested against zero: "
    told += f"{decided} {_form(decided, 'has', 'have')} an interval without it "
    told += f"(by chance alone at most {LEVEL * tested:.1f} would); "
    told += f"corrected together (Holm, {100 * LEVEL:g} %) {left} {_form(left, 'remains', 'remain')}"
    listed = f"; {count(late, 'claim')} on them {_form(late, 'was', 'were')} listed after the runs had been seen"
    return told + listed * bool(late)


def _form(number: int, one: str, several: str) -> str:
    """Of a verb."""
    return one if number == 1 else several


def told(counts: Mapping[str, int]) -> str:
    """2 reproduced, 1 partly."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"


def summary(verdicts: Iterable[Mapping[str, str]], none: str = "") -> str:
    """2 reproduced, 1 partly; asked by us: 1 undecided. `none`: said where no claim of the paper is among them."""
    published, own = (tally(made(verdicts, by)) for by in (PAPER, US))
    asked = f"asked by us: {told(own)}" if own else ""
    return "; ".join(filter(None, [told(published) if published or not own else none, asked]))
