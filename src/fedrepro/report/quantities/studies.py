"""Quantities from studies of the trained networks, and from the bytes of runs."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from fedrepro.config.types import Count, NonNegative
from fedrepro.core.errors import UserError, unknown_name_message
from fedrepro.core.metrics import NO_CLASS, Measure
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import (
    CHANGE,
    EPOCHS,
    PERCENT,
    POINTS,
    TIMES,
    Unit,
    format_target,
    megabytes_per_round,
)
from fedrepro.report.quantities.base import CountedQuantity, Expected, Quantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import EPSILON, ROUNDING, grouped, mean

ACTIVATIONS, NEWCOMERS = "activations", "newcomers"  # studies
COLUMNS = {  # study -> column -> its name on axes
    ACTIVATIONS: {"divergence": "divergence"},
    "same_class": {
        "ratio": "distance within over between classes",
        "kl": "divergence within classes",
    },
}
# study -> the column that is 0 if activations do not differ
SIZES = {ACTIVATIONS: "divergence", "same_class": "same"}
LAST_ROUNDS = 10  # of `learned`, in which the accuracy is constant if one class is predicted
VARIANCE = Unit("TV", "TV", digits=3, signed=True)
Blocks = Annotated[tuple[str, ...], Field(min_length=1)]
Row = Mapping[str, str]  # of the study's table


class BytesOverhead(Quantity):
    """The bytes that a series sends per round, down and up, relative to its baseline: bytes(series)
    / bytes(baseline) - 1."""

    baseline: str

    @property
    def contrast(self) -> bool:
        return False

    def unit(self, measure: Measure) -> Unit:
        return CHANGE

    def label(self, measure: Measure) -> str:
        return f"bytes more than {self.baseline} (%)"

    def found(self, view: ExperimentView, label: str) -> Mapping[int, float]:
        return {run["seed"]: megabytes_per_round(run) for run in view.results.runs(label)}

    def found_name(self, view: ExperimentView) -> str:
        return "bytes"

    def number(self, view: ExperimentView, *found: float) -> float | Reason:
        return found[0] / found[1] - 1


class StudyQuantity(Quantity):
    """A share from a study's rows of the last studied round; with a `baseline` the difference to
    that of the baseline with the same seed."""

    baseline: str | None = None
    study: ClassVar[str]
    title: ClassVar[str]
    studied: ClassVar[str]  # what the study measures, for the reason if it did not

    @property
    def expected(self) -> dict[str, Expected]:
        return {"higher": Expected()} if self.baseline else {}

    def of_rows(self, rows: Sequence[Row]) -> float:
        """Return the number for one seed."""
        raise NotImplementedError

    def unit(self, measure: Measure) -> Unit:
        return POINTS if self.baseline else PERCENT

    def label(self, measure: Measure) -> str:
        return (
            f"{self.title} above {self.baseline} (points)" if self.baseline else f"{self.title} (%)"
        )

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if self.baseline else (0, 1)

    def found(self, view: ExperimentView, label: str) -> Mapping[int, float]:
        rows = view.results.rows_without_diverged(label)
        last = max((int(row["round"]) for row in rows), default=0)
        seeds = grouped((int(row["seed"]), row) for row in rows if int(row["round"]) == last)
        return {seed: self.of_rows(own) for seed, own in seeds.items()}

    def found_name(self, view: ExperimentView) -> str:
        return self.studied

    def number(self, view: ExperimentView, *found: float) -> float | Reason:
        return found[0] - found[1] if self.baseline else found[0]

    def in_blocks(self, rows: Sequence[Row], blocks: Sequence[str]) -> dict[str, list[Row]]:
        """Return block -> its rows, of some blocks (none: of all). Raise UserError for a block that
        the network lacks."""
        by_block = grouped((row["block"], row) for row in rows)
        if unknown := next((name for name in blocks if name not in by_block), None):
            raise UserError(f"{self.kind}: {unknown_name_message('block', unknown, by_block)}")
        return {name: by_block[name] for name in blocks or by_block}


class WorstTenth(StudyQuantity):
    """The mean accuracy of the worst tenth of the clients, each on its own test images, from the
    study `clients`: a tenth of their number, rounded up. With a `baseline` the lead over the
    baseline's."""

    study: ClassVar = "clients"
    title: ClassVar = "mean accuracy of the worst tenth of clients"
    studied: ClassVar = "accuracies of clients"

    def of_rows(self, rows: Sequence[Row]) -> float:
        accuracies = sorted(float(row["accuracy"]) for row in rows)
        return mean(accuracies[: -(-len(accuracies) // 10)])


class Spread(StudyQuantity):
    """The standard deviation, over all clients, of the accuracy on each client's own test images,
    from the study `clients`. With a `baseline` the difference to the baseline's."""

    study: ClassVar = "clients"
    title: ClassVar = "standard deviation of accuracy over clients"
    studied: ClassVar = "accuracies of clients"

    def of_rows(self, rows: Sequence[Row]) -> float:
        accuracies = sorted(float(row["accuracy"]) for row in rows)
        return math.sqrt(mean([(accuracy - mean(accuracies)) ** 2 for accuracy in accuracies]))


class Gates(StudyQuantity):
    """The share of FedFusion's maps whose lambda is further than `above` from 0, its start, after
    the last studied round, from the study `gates`."""

    above: NonNegative = 0.1
    study: ClassVar = "gates"
    title: ClassVar = "maps whose gate has left 0"
    studied: ClassVar = "gates"

    def of_rows(self, rows: Sequence[Row]) -> float:
        return mean([abs(float(row["lambda"])) > self.above for row in rows])


class Agreement(StudyQuantity):
    """How often two clients' units at the same place of the network answer most to one class, from
    the study `preferences`: the share of such pairs among those that both have a top class, in each
    block, averaged over the `blocks` (default: all) that have any, 0 without. With a `baseline` the
    lead over the baseline's.

    In groups of one class (Psi-Net) a unit influences the scores of its group's classes alone, so
    that its top class is this one or none: there all pairs agree by design, whatever was learnt.
    """

    blocks: tuple[str, ...] = ()
    study: ClassVar = "preferences"
    title: ClassVar = "pairs of clients that agree on a unit's top class"
    studied: ClassVar = "top classes of units"

    def of_rows(self, rows: Sequence[Row]) -> float:
        shares = [_agreeing_share(own) for own in self.in_blocks(rows, self.blocks).values()]
        return mean([share for share in shares if share is not None] or [0])


def _agreeing_share(rows: Iterable[Row]) -> float | None:
    """Return the share of pairs of clients with the same top class, of one block, None without any
    pair."""
    units = grouped(
        (row["unit"], row["class"]) for row in rows if int(row["class"]) != NO_CLASS
    ).values()
    agreeing = sum(count * (count - 1) for clients in units for count in Counter(clients).values())
    pairs = sum(len(clients) * (len(clients) - 1) for clients in units)
    return agreeing / pairs if pairs else None


class TotalVariance(StudyQuantity):
    """By how much a network's class preferences vary more in some blocks than in others, from the
    study `preferences`: the mean total variance (Eq. 5 of Psi-Net) over `blocks`, less that over
    `than`, of one and the same network."""

    blocks: Blocks
    than: Blocks
    study: ClassVar = "preferences"
    title: ClassVar = "total variance"
    studied: ClassVar = "preferences of units"

    @property
    def contrast(self) -> bool:
        return True

    @property
    def reports_number(self) -> bool:
        return False

    @property
    def expected(self) -> dict[str, Expected]:
        return {"higher": Expected()}

    def of_rows(self, rows: Sequence[Row]) -> float:
        self.in_blocks(rows, [*self.blocks, *self.than])
        above, below = (self._mean_distance(rows, blocks) for blocks in (self.blocks, self.than))
        return above - below

    def _mean_distance(self, rows: Sequence[Row], blocks: Sequence[str]) -> float:
        """Return the mean over blocks; NaN if no unit of the blocks answers to anything."""
        own = self.in_blocks(rows, blocks).values()
        distances = [[float(row["distance"]) for row in group if row["distance"]] for group in own]
        return mean([mean(group) for group in distances if group] or [math.nan])

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        dead = [make_reason(ReasonKind.UNMEASURED, what=self.studied, series=self.labels)]
        return super().missing_in(view) or (dead if any(map(math.isnan, self.values(view))) else [])

    def unit(self, measure: Measure) -> Unit:
        return VARIANCE

    def label(self, measure: Measure) -> str:
        return f"total variance in {', '.join(self.blocks)} above that in {', '.join(self.than)}"

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return -math.inf, math.inf


class Divergence(Quantity):
    """The divergence of activations between devices, relative to another: log(divergence(series) /
    divergence(other)), each the mean over rounds (up to `until`) and devices. Ratios are skewed:
    means and intervals are those of the logarithms, printed as ratios. The other is a `baseline`
    series, or the same series in the experiment `than`. A claim may report that it is "lower" than
    the baseline's, or "higher" than in the other experiment; only the sign is judged.

    The study `activations` has the divergence of each device from the mean over devices. The study
    `same_class` has a number for each round, `kl` or `ratio`, which is a logarithm already: its
    mean over rounds is that of a geometric mean.

    Two kinds of failed networks are not tested, since their activations hardly differ: a dead one,
    whose activations are equal, and one that predicts a single class. The latter has the same
    accuracy in the last rounds of all seeds of `learned`, the experiment that measures the
    accuracies.
    """

    baseline: str | None = None
    than: str | None = None
    until: Count | None = None
    learned: str | None = None
    # left out of a registration if they are the default, so that claims from before they existed
    # stay registered
    study: Literal["activations", "same_class"] = Field(
        ACTIVATIONS, exclude_if=lambda value: value == ACTIVATIONS
    )
    column: Literal["divergence", "ratio", "kl"] = Field(
        "divergence", exclude_if=lambda value: value == "divergence"
    )

    @model_validator(mode="after")
    def _one_other(self) -> "Divergence":
        if (self.baseline is None) == (self.than is None):
            raise ValueError("a quantity of kind divergence needs baseline or than (one of them)")
        if self.column not in COLUMNS[self.study]:
            raise ValueError(
                f"column: the study {self.study} has {' and '.join(COLUMNS[self.study])} (got "
                f"{self.column})"
            )
        return self

    @property
    def reports_number(self) -> bool:
        return False

    @property
    def expected(self) -> dict[str, Expected]:
        return {"lower": Expected(sign=-1)} if self.baseline else {"higher": Expected()}

    def unit(self, measure: Measure) -> Unit:
        return TIMES

    def label(self, measure: Measure) -> str:
        name = COLUMNS[self.study][self.column]
        return f"log of {name} over {self.baseline or 'the other set-up'}'s"

    @property
    def other_experiments(self) -> list[str]:
        return [
            *([results_name(self.than, self.study)] if self.than else []),
            *self.unshown_experiments,
        ]

    @property
    def unshown_experiments(self) -> list[str]:
        return [self.learned] if self.learned else []

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        if self.than:
            checker.at("than").check_study(self.than, self.study, self.labels)
        if self.learned:
            checker.at("learned").check_ref(ExperimentRef(experiment=self.learned), self.labels)

    def found(self, view: ExperimentView, label: str) -> Mapping[int, list[float]]:
        numbers = _numbers(view, label, self.until, self.column)
        return numbers if all(numbers.values()) else {}

    def found_name(self, view: ExperimentView) -> str:
        return "activations" if self.study == ACTIVATIONS else "pairs of devices that share a class"

    def number(self, view: ExperimentView, *found: list[float]) -> float | Reason:
        one, two = map(fmean, found)
        return one - two if self.column == "ratio" else math.log(one / two)

    def missing(self, view: ExperimentView) -> list[Reason]:
        return super().missing(view) or [
            reason for label in self.labels for reason in _constant(view, label, self.learned)
        ]

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        equal = [
            label for label in self.labels if _equal(view, label, self.until, SIZES[self.study])
        ]
        return [make_reason(ReasonKind.DEAD, series=equal)] if equal else super().missing_in(view)


def failure(view: ExperimentView, label: str, learned: str) -> str:
    """Return in words how the networks of a series failed, so that their activations hardly differ;
    empty if they did not."""
    if _constant(view, label, learned):
        return "answers with one class"
    return "dead units" if _equal(view, label, None, SIZES[ACTIVATIONS]) else ""


def _equal(view: ExperimentView, label: str, until: int | None, column: str) -> bool:
    """Return whether in most rounds of some seed the activations do not differ between devices: the
    column is 0."""
    seeds = _numbers(view, label, until, column).values()
    return any(2 * sum(value < ROUNDING for value in values) > len(values) for values in seeds)


def _constant(view: ExperimentView, label: str, learned: str | None) -> list[Reason]:
    """Return a reason if the networks of a series predict a single class; two seeds are needed to
    see it."""
    if learned is None:
        return []
    accuracies = view.sibling(learned)
    ends = [
        value for curve in accuracies.curves(label).values() for _, value in curve[-LAST_ROUNDS:]
    ]
    if len(ends) < 2 * LAST_ROUNDS or max(ends) - min(ends) > ROUNDING:
        return []
    accuracy = format_target(accuracies.measure, ends[0])
    return [make_reason(ReasonKind.ONE_CLASS, series=label, value=accuracy, rounds=LAST_ROUNDS)]


def _numbers(
    view: ExperimentView, label: str, until: int | None, column: str
) -> dict[int, list[float]]:
    """Return seed -> the numbers in the column of the rows of rounds up to `until`; some cells are
    empty."""
    rows = [
        row
        for row in view.results.rows_without_diverged(label)
        if until is None or int(row["round"]) <= until
    ]
    seeds = grouped((int(row["seed"]), row[column]) for row in rows)
    return {seed: [float(cell) for cell in cells if cell] for seed, cells in seeds.items()}


class Epochs(CountedQuantity):
    """The epochs of local training that new clients need to reach a target, from the study
    `newcomers`: the mean over the new clients of a run, if all of them reach it. With a `baseline`
    the saving, 1 - epochs(series) / epochs(baseline)."""

    study: ClassVar = NEWCOMERS
    counted: ClassVar = EPOCHS

    def label(self, measure: Measure) -> str:
        return (
            f"epochs saved against {self.baseline} (%)"
            if self.baseline
            else "epochs of new clients"
        )

    def found(self, view: ExperimentView, label: str) -> Mapping[int, Collection[int | None]]:
        return {
            seed: clients.values()
            for seed, clients in epochs_to_target(view.results, label).items()
        }

    def found_name(self, view: ExperimentView) -> str:
        return "new clients"

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        untrained = self.baseline and any(
            set(clients) == {0} for clients in self.found(view, self.baseline).values()
        )
        reason = make_reason(ReasonKind.NO_TRAINING, series=self.baseline)
        return super().missing_in(view) or ([reason] if untrained else [])

    def missed_target(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each seed of which some new clients do not reach the target."""
        settings, reasons = view.results.settings, []
        limits = {"target": f"{100 * settings['target']:g} %", "epochs": settings["epochs"]}
        for label in self.labels:
            for seed, clients in self.found(view, label).items():
                if missing := list(clients).count(None):
                    values = {"missing": missing, "total": len(clients), "series": label} | limits
                    reasons.append(Reason(ReasonKind.CLIENTS_LATE, values, (seed,)))
        return reasons

    def number(self, view: ExperimentView, *found: Collection[int]) -> float | Reason:
        means = [mean(list(clients)) for clients in found]
        return 1 - means[0] / means[1] if self.baseline else means[0]

    def target_margins(self, view: ExperimentView, label: str) -> list[float]:
        """Return per seed how much the worst new client's best accuracy exceeds the target."""
        rows, target = view.results.rows_without_diverged(label), view.results.settings["target"]
        seeds = grouped((row["seed"], row) for row in rows)
        clients = [
            grouped((row["client"], float(row["accuracy"])) for row in own)
            for own in seeds.values()
        ]
        return [min(map(max, accuracies.values())) - target for accuracies in clients]

    def arrivals_text(self, view: ExperimentView, label: str) -> str:
        epochs = [epoch for clients in self.found(view, label).values() for epoch in clients]
        return f"{len(epochs) - epochs.count(None)} of {len(epochs)} new clients"


def epochs_to_target(results: Results, label: str) -> dict[int, dict[int, int | None]]:
    """Return seed -> client -> the first epoch at which its own-test accuracy reaches the study's
    target, None if it never does. Diverged runs are left out."""
    rows = results.rows_without_diverged(label)
    epochs: dict[int, dict[int, int | None]] = {int(row["seed"]): {} for row in rows}
    for row in rows:
        clients, client = epochs[int(row["seed"])], int(row["client"])
        reached = float(row["accuracy"]) >= results.settings["target"] - EPSILON
        if clients.setdefault(client, None) is None and reached:
            clients[client] = int(row["epoch"])
    return epochs
