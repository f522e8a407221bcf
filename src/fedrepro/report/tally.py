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


def chance(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """How many differences were tested against zero, how many have an interval without it, and what is left of them when all
    are corrected together (Holm 1979), and how many were listed late; empty where there is none."""
    verdicts = list(verdicts)
    late = sum(verdict.get("afterwards") == "yes" for verdict in verdicts if verdict["p"] is not None)
    told = {(verdict["mean"], verdict["half_width"], verdict["seeds"], verdict["p"]) for verdict in verdicts}  # each once
    found = sorted(p for *_, p in told if p is not None)
    if not found:
        return ""
    least = [p <= LEVEL / (len(found) - place) for place, p in enumerate(found)]
    left = next((place for place, passes in enumerate(least) if not passes), len(found))
    decided, expected = sum(p < LEVEL for p in found), LEVEL * len(found)
    return (
        f"{count(len(found), 'difference')} over seeds {'was' if len(found) == 1 else 'were'} tested against zero: {decided} "
        f"{'has' if decided == 1 else 'have'} an interval without it (by chance alone at most {expected:.1f} would); corrected "
        f"together (Holm, {100 * LEVEL:g} %) {left} {'remains' if left == 1 else 'remain'}"
        + (
            f"; {count(late, 'claim')} on them {'was' if late == 1 else 'were'} listed after the runs had been seen"
            if late
            else ""
        )
    )


def told(counts: Mapping[str, int]) -> str:
    """2 reproduced, 1 partly."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"


def summary(verdicts: Iterable[Mapping[str, str]], none: str = "") -> str:
    """2 reproduced, 1 partly; asked by us: 1 undecided. `none`: said where no claim of the paper is among them."""
    published, own = (tally(made(verdicts, by)) for by in (PAPER, US))
    asked = f"asked by us: {told(own)}" if own else ""
    return "; ".join(filter(None, [told(published) if published or not own else none, asked]))
