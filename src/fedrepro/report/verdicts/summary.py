"""The record of a claim and its verdict, which every document shows, and counts of records. Imports no torch, no matplotlib."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

from fedrepro.core.files import read_records
from fedrepro.report.numbers import POINTS
from fedrepro.report.statistics import POWER, holm
from fedrepro.report.verdicts.rules import RULES, UNJUDGED, Status

VERDICTS = "verdicts"  # the name of the table of verdicts that every paper has
PAPER, US = "the paper", "us"  # values of `by`: who makes a claim
LEVEL = 0.05  # significance level
REGISTERED_IN = "registered in "  # begins `registered` of a claim that stood in the commit of every run
WORDS = {"yes": "supported", "no": "contradicted", "not shown": "open"}  # the same of a claim
ANSWERS = {  # plain words for verdicts: of a claim that a method is better, whether it is
    "yes": (Status.REPRODUCED, Status.PARTLY, Status.AGREES, Status.HOLDS),
    "no": (Status.NOT, Status.DISAGREES, Status.FAILS),
    "not shown": (Status.UNDECIDED, Status.CALIBRATED),
}
ANSWER_OF: dict[str, str] = {status: word for word, statuses in ANSWERS.items() for status in statuses}


@dataclass(frozen=True)
class Record:
    """A claim with its verdict at one scale. `decide.make_records` makes it, `read_verdicts` reads it from verdicts.json;
    pages, first page, LaTeX and terminal show it. Numbers are 0..1, nats, rounds or epochs."""

    claim: str
    source: str
    reported: str
    ours: str  # mean with its interval and the number of seeds
    asked: str  # the target and rounds at a scale that does not compare sizes
    verdict: str
    why: str
    note: str
    key: str
    experiment: str
    artifact: str  # the figure or table that it is shown with
    tolerance: str
    by: str
    registered: str
    headline: str
    mean: float | None
    half_width: float | None
    seeds: int | None
    p: float | None
    p_holm: float | None
    reported_number: float | None
    seeds_needed: int | None
    unit: str
    panels: int
    panel_means: str
    measure: str
    calibrated: str
    paper: str = ""  # this and the scale are names of folders, not in the file
    scale: str = ""

    @property
    def tested(self) -> bool:
        return self.verdict in ANSWER_OF

    @property
    def answer(self) -> str:
        """Whether the claim holds: yes, no or not shown; the verdict if it was not tested."""
        return ANSWER_OF.get(self.verdict, self.verdict)

    @property
    def plain_word(self) -> str:
        """The verdict as "supported", "contradicted" or "open"; as it is if the claim was not tested."""
        return WORDS.get(self.answer, self.answer)

    @property
    def word(self) -> str:
        """The plain word; at a scale that compares directions only, it says so."""
        return f"{'direction ' * (self.verdict in (Status.AGREES, Status.DISAGREES))}{self.plain_word}"

    @property
    def interval(self) -> str:
        """Our mean with its interval as printed, without the number of seeds."""
        return self.ours.removesuffix(" (1 seed)").partition(" (n = ")[0]

    @property
    def difference(self) -> str:
        """The interval; that of a difference of accuracies without its unit."""
        return self.interval.removesuffix(f" {POINTS.name}")

    @property
    def significant(self) -> bool:
        """Whether the difference remains significant if all tests of its paper at its scale are corrected (Holm)."""
        return self.p_holm is not None and self.p_holm <= LEVEL

    @property
    def remarks(self) -> list[str]:
        """What weakens or strengthens the evidence, as phrases."""
        test = ""
        if self.p is not None and self.p_holm is not None and self.answer != "not shown":
            tested = f"p = {self.p:.2g}, after Holm's correction {self.p_holm:.2g}"
            test = tested if self.p <= LEVEL else "the 90 % interval excludes a lead that counts"
        return list(filter(None, [test, self.calibrated and f"calibrated: {self.calibrated}", self.registered]))

    @property
    def address(self) -> str:
        """Its place on the page of its paper, from the first page."""
        return f"{self.scale}/{self.paper}/index.html#claim-{self.key}"

    @property
    def is_difference(self) -> bool:
        """Whether it is one of accuracies, which a forest plot can show beside others: our interval or, if it is not tested,
        what the paper reports."""
        return (self.half_width if self.tested else self.reported_number) is not None and self.unit == POINTS.name

    @property
    def test(self) -> tuple:
        """The key of its test against zero, the same for claims on the same difference."""
        return self.mean, self.half_width, self.seeds, self.p


VERDICT_FIELDS = tuple(field.name for field in fields(Record) if field.default is MISSING)  # of verdicts.json, in its order


def read_verdicts(folder: Path) -> list[Record]:
    """Return the records of verdicts in a paper's `folder` (reports/<scale>/<paper>); none if there is no such file."""
    path = folder / "tables" / f"{VERDICTS}.json"
    rows = read_records(path, *VERDICT_FIELDS) if path.exists() else []
    return [Record(**{name: row[name] for name in VERDICT_FIELDS}, paper=folder.name, scale=folder.parent.name) for row in rows]


def tally(records: Iterable[Record]) -> dict[str, int]:
    """Return status -> number of verdicts that have it, in the order of `RULES`."""
    return sum_tallies([Counter(record.verdict for record in records)])


def sum_tallies(tallies: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up tallies; the statuses are in the order of the rules."""
    total = sum(map(Counter, tallies), Counter())
    return {status: total[status] for status in RULES if total[status]}


def count_words(records: Iterable[Record]) -> dict[str, int]:
    """Return plain word -> number of claims, in the order of the words."""
    counts = Counter(record.plain_word for record in records)
    return {word: counts[word] for word in (*WORDS.values(), *UNJUDGED) if counts[word]}


def judged_first(records: Iterable[Record]) -> list[Record]:
    """Return the claims with those that are not compared after the judged ones, and those that are not run last."""
    return sorted(records, key=lambda record: ("", *UNJUDGED).index(record.verdict if record.verdict in UNJUDGED else ""))


def claimed_by(records: Iterable[Record], by: str) -> list[Record]:
    """Return the verdicts on claims of `PAPER`, or on our own questions (`US`)."""
    return [record for record in records if record.by == by]


def count_tests(records: Iterable[Record]) -> tuple[int, int, int]:
    """Return how many differences were tested against zero, how many are significant, and how many after correction."""
    tests = distinct_tests(records)
    return len(tests), sum(p < LEVEL for p in tests.values()), sum(p <= LEVEL for p in holm(tests).values())


def distinct_tests(records: Iterable[Record]) -> dict[tuple, float]:
    """Return test -> p-value of all tests against zero. Claims may share a test, which counts once."""
    return {record.test: record.p for record in records if record.p is not None}


def count_registered(records: Iterable[Record]) -> int:
    """Return how many verdicts are on claims that were registered before their first run."""
    return sum(record.registered.startswith(REGISTERED_IN) for record in records)


def multiple_testing_note(records: Sequence[Record]) -> str:
    """Return a sentence on multiple testing; empty if no difference was tested.

    It holds the number of tests, of significant ones, and of these after correction; the registered claims; and the undecided
    ones, with how many had enough seeds to detect a difference of the reported size.
    """
    tested, decided, left = count_tests(records)
    if not tested:
        return ""
    registered = count_registered(record for record in records if record.p is not None)
    unsure = [record for record in records if record.verdict == Status.UNDECIDED and record.seeds_needed]
    enough = sum((record.seeds_needed or 0) <= (record.seeds or 0) for record in unsure)
    parts = [
        f"Differences over seeds tested against zero: {tested}",
        f"intervals that exclude zero: {decided} (expected by chance alone: at most {LEVEL * tested:.1f})",
        f"of these significant after correction for the number of tests (Holm, {100 * LEVEL:g} %): {left}",
        f"claims on them registered before their first run: {registered}",
    ]
    powered = f"of these with enough seeds to detect a difference of that size in {100 * POWER:.0f} % of tries: {enough}"
    parts += [f"undecided differences whose size the paper reports: {len(unsure)}", powered] if unsure else []
    return "; ".join(parts)


def format_counts(counts: Mapping[str, int]) -> str:
    """Return e.g. "2 reproduced, 1 partly"."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"


def summary(records: Sequence[Record]) -> str:
    """Return e.g. "2 reproduced, 1 partly; asked by us: 1 undecided"."""
    published, own = (tally(claimed_by(records, by)) for by in (PAPER, US))
    counts = [format_counts(published)] if published or not own else []
    return "; ".join([*counts, *([f"asked by us: {format_counts(own)}"] if own else [])])
