"""The record of a claim and its verdict, which every document shows, and counts of records. Imports
no torch, no matplotlib."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from fedrepro.core.files import read_records
from fedrepro.report.numbers import POINTS
from fedrepro.report.verdicts.rules import Status

VERDICTS = "verdicts"  # the name of the table of verdicts that every paper has
PAPER, US = "the paper", "us"  # values of `by`: who makes a claim
LEVEL = 0.05  # significance level
# begins `registered` of a claim that stood in the commit of every run
REGISTERED_IN = "registered in "


@dataclass(frozen=True)
class Record:
    """A claim with its verdict at one scale. `decide.make_records` makes it, `read_verdicts` reads
    it from verdicts.json; pages, first page, LaTeX and terminal show it. Numbers are 0..1, nats,
    rounds or epochs."""

    claim: str
    source: str
    reported: str
    ours: str  # mean with its interval and the number of seeds
    asked: str  # the target and rounds at a scale that does not compare sizes
    verdict: str
    # of an open one: "for" or "against" if the interval or the target speaks for one side
    lean: str
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
    standard_error: float | None
    seeds: int | None
    p: float | None
    p_holm: float | None
    reported_number: float | None
    seeds_needed: int | None
    unit: str
    panels: int
    samples: Mapping[str, Mapping[int, float]]  # panel, which is an experiment -> seed -> value
    measure: str
    calibrated: str
    paper: str = ""  # this and the scale are names of folders, not in the file
    scale: str = ""

    @property
    def tested(self) -> bool:
        return self.verdict != Status.NOT_TESTED

    @property
    def decided(self) -> bool:
        return self.verdict in (Status.SUPPORTED, Status.CONTRADICTED)

    @property
    def words(self) -> str:
        """The verdict with its lean, as it is shown."""
        return f"{self.verdict}, leans {self.lean}" if self.lean else self.verdict

    @property
    def css_class(self) -> str:
        return "lean" if self.lean else self.verdict.replace(" ", "-")

    @property
    def interval(self) -> str:
        """Our mean with its interval as printed, without the number of seeds."""
        return self.ours.removesuffix(" (1 seed)").partition(" (n = ")[0]

    @property
    def difference(self) -> str:
        """The interval; that of a difference of accuracies without its unit."""
        return self.interval.removesuffix(f" {POINTS.name}")

    @property
    def remarks(self) -> list[str]:
        """What weakens or strengthens the evidence, as phrases."""
        test = (
            ""
            if self.p_holm is None
            else f"p = {self.p:.2g}, after Holm's correction {self.p_holm:.2g}"
        )
        return list(
            filter(
                None, [test, self.calibrated and f"calibrated: {self.calibrated}", self.registered]
            )
        )

    @property
    def address(self) -> str:
        """Its place on the page of its paper, from the first page."""
        return f"{self.scale}/{self.paper}/index.html#{self.place}"

    @property
    def place(self) -> str:
        """Its id on that page; if it is not tested, that of the table that counts it."""
        return f"claim-{self.key}" if self.tested else "the-coverage"

    @property
    def is_difference(self) -> bool:
        """Whether it is one of accuracies, which a forest plot can show beside others: our interval
        or, if it is not tested, what the paper reports."""
        return (
            self.half_width if self.tested else self.reported_number
        ) is not None and self.unit == POINTS.name

    @property
    def test(self) -> tuple:
        """The key of its test against zero, the same for claims on the same difference."""
        return self.mean, self.half_width, self.seeds, self.p


# printed unit -> that of the numbers, if another
STORED_UNITS = {"%": "fraction", "points": "fraction", "times": "log ratio"}
SAMPLE_COLUMNS = (
    *("paper", "scale", "key", "claim", "verdict", "panel", "seed"),
    *("value", "mean", "standard_error", "n", "unit", "reported_number"),
)
# of verdicts.json, in its order
VERDICT_FIELDS = tuple(field.name for field in fields(Record) if field.default is MISSING)


def read_verdicts(folder: Path) -> list[Record]:
    """Return the records of verdicts in a paper's `folder` (reports/<scale>/<paper>); none if there
    is no such file."""
    path = folder / "tables" / f"{VERDICTS}.json"
    rows = read_records(path, *VERDICT_FIELDS) if path.exists() else []
    return [
        Record(
            **{name: row[name] for name in VERDICT_FIELDS},
            paper=folder.name,
            scale=folder.parent.name,
        )
        for row in rows
    ]


def sample_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return a row with `SAMPLE_COLUMNS` for each claim, panel and seed with a value."""
    rows = []
    for one in records:
        shared = vars(one) | {"n": one.seeds, "unit": STORED_UNITS.get(one.unit, one.unit)}
        for panel, values in one.samples.items():
            of_panel = [
                shared | {"panel": panel, "seed": int(seed), "value": value}
                for seed, value in values.items()
            ]
            rows += [{name: row[name] for name in SAMPLE_COLUMNS} for row in of_panel]
    return rows


def tally(records: Iterable[Record]) -> dict[str, int]:
    """Return verdict -> number of claims that have it, in the order of `Status`."""
    return sum_tallies([Counter(record.verdict for record in records)])


def sum_tallies(tallies: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up tallies; the verdicts are in the order of `Status`."""
    total = sum(map(Counter, tallies), Counter())
    return {status: total[status] for status in Status if total[status]}


def claimed_by(records: Iterable[Record], by: str) -> list[Record]:
    """Return the verdicts on claims of `PAPER`, or on our own questions (`US`)."""
    return [record for record in records if record.by == by]


def distinct_tests(records: Iterable[Record]) -> dict[tuple, float]:
    """Return test -> p-value of all tests against zero. Claims may share a test, which counts
    once."""
    return {record.test: record.p for record in records if record.p is not None}


def count_registered(records: Iterable[Record]) -> int:
    """Return how many verdicts are on claims that were registered before their first run."""
    return sum(record.registered.startswith(REGISTERED_IN) for record in records)


def multiple_testing_note(records: Iterable[Record]) -> str:
    """Return a sentence on multiple testing: the number of tests, of significant ones, and of these
    after correction; empty if no difference was tested."""
    tested = {record.test: record for record in records if record.p_holm is not None}.values()
    decided, left = (sum(getattr(record, p) <= LEVEL for record in tested) for p in ("p", "p_holm"))
    if not tested:
        return ""
    return (
        f"Differences over seeds tested against zero: {len(tested)}; intervals that exclude zero: "
        f"{decided} (expected by chance alone: at most {LEVEL * len(tested):.1f}); after "
        f"correction for the number of tests (Holm): {left}"
    )


def format_counts(counts: Mapping[str, int]) -> str:
    """Return e.g. "2 supported, 1 open"."""
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no verdicts"


def summary(records: Sequence[Record]) -> str:
    """Return e.g. "2 supported, 1 open; asked by us: 1 open"."""
    published, own = (tally(claimed_by(records, by)) for by in (PAPER, US))
    counts = [format_counts(published)] if published or not own else []
    return "; ".join([*counts, *([f"asked by us: {format_counts(own)}"] if own else [])])
