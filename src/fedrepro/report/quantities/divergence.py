"""The divergence of activations between devices, relative to another: log(divergence(series) / divergence(other)), each the
mean over rounds (up to `until`) and devices. Ratios are skewed: means and intervals are those of the logarithms,
printed as ratios. The other is a `baseline` series, or the same series in the experiment `than`. A claim may report that it
is "lower" than the baseline's, or "higher" than in the other experiment; only the sign is judged.

The study `activations` has the divergence of each device from the mean over devices. The study `same_class` has a number for
each round, `kl` or `ratio`, which is a logarithm already: its mean over rounds is that of a geometric mean.

Two kinds of failed networks are not compared, since their activations hardly differ: a dead one, whose activations are equal,
and one that predicts a single class. The latter has the same accuracy in the last rounds of all seeds of `learned`, the
experiment that measures the accuracies."""

import math
from statistics import fmean
from typing import Literal

from pydantic import Field, model_validator

from fedrepro.config.types import Count
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import TIMES, Unit, format_target
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import ROUNDING

STUDY = "activations"
COLUMNS = {  # study -> column -> its name on axes
    STUDY: {"divergence": "divergence"},
    "same_class": {"ratio": "distance within over between classes", "kl": "divergence within classes"},
}
SIZES = {STUDY: "divergence", "same_class": "same"}  # study -> the column that is 0 if activations do not differ
LAST_ROUNDS = 10  # of `learned`, in which the accuracy is constant if one class is predicted


class Quantity(base.Quantity):
    baseline: str | None = None
    than: str | None = None
    until: Count | None = None
    learned: str | None = None
    # left out of a registration if they are the default, so that claims from before they existed stay registered
    study: Literal["activations", "same_class"] = Field(STUDY, exclude_if=lambda value: value == STUDY)
    column: Literal["divergence", "ratio", "kl"] = Field("divergence", exclude_if=lambda value: value == "divergence")

    @model_validator(mode="after")
    def _one_other(self) -> "Quantity":
        if (self.baseline is None) == (self.than is None):
            raise ValueError("a quantity of kind divergence needs baseline or than (one of them)")
        if self.column not in COLUMNS[self.study]:
            raise ValueError(f"column: the study {self.study} has {' and '.join(COLUMNS[self.study])} (got {self.column})")
        return self

    @property
    def contrast(self) -> bool:
        return self.baseline is not None

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"lower": base.Expected(sign=-1)} if self.baseline else {"higher": base.Expected()}

    @property
    def reports_number(self) -> bool:
        return False

    def unit(self, measure: Measure) -> Unit:
        return TIMES

    def label(self, measure: Measure) -> str:
        name = COLUMNS[self.study][self.column]
        return f"log of {name} over {self.baseline or 'the other set-up'}'s"

    @property
    def other_experiments(self) -> list[str]:
        return [*([results_name(self.than, self.study)] if self.than else []), *self.unshown_experiments]

    @property
    def unshown_experiments(self) -> list[str]:
        return [self.learned] if self.learned else []

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        if self.than:
            checker.at("than").check_study(self.than, self.study, self.labels)
        if self.learned:
            checker.at("learned").check_ref(ExperimentRef(experiment=self.learned), self.labels)

    def _compared(self, view: ExperimentView) -> list[tuple[ExperimentView, str]]:
        """Return the two series whose divergences are compared, each with the view of its experiment."""
        other = (view, self.baseline) if self.baseline else (view.sibling(self.other_experiments[0]), self.series)
        return [(view, self.series), other]

    def diverged(self, view: ExperimentView) -> list[Reason]:
        there = [] if self.baseline else super().diverged(self._compared(view)[1][0])
        return super().diverged(view) + there

    def missing(self, view: ExperimentView) -> list[Reason]:
        compared = self._compared(view)
        if equal := [label for each, label in compared if _equal(each, label, self.until, SIZES[self.study])]:
            return [make_reason(ReasonKind.DEAD, series=equal)]
        found = [_numbers(*each, self.until, self.column) for each in compared]
        pairs = zip(compared, found, strict=True)
        if unmeasured := [label for (_, label), seeds in pairs if not seeds or not all(seeds.values())]:
            what = "activations" if self.study == STUDY else "pairs of devices that share a class"
            return [make_reason(ReasonKind.UNMEASURED, what=what, series=unmeasured)]
        constant = [reason for label in self.labels for reason in _constant(view, label, self.learned)]
        names = self.labels if self.baseline else [f"{self.series} in {each.key}" for each, _ in compared]
        return constant or base.unpaired_seeds(dict(zip(names, found, strict=True)))

    def values(self, view: ExperimentView) -> list[float]:
        series, other = (_numbers(*each, self.until, self.column) for each in self._compared(view))
        means = [(fmean(series[seed]), fmean(other[seed])) for seed in sorted(series)]
        return [one - two if self.column == "ratio" else math.log(one / two) for one, two in means]


def failure(view: ExperimentView, label: str, learned: str) -> str:
    """Return in words how the networks of a series failed, so that their activations hardly differ; empty if they did not."""
    if _constant(view, label, learned):
        return "answers with one class"
    return "dead units" if _equal(view, label, None, SIZES[STUDY]) else ""


def _equal(view: ExperimentView, label: str, until: int | None, column: str) -> bool:
    """Return whether in most rounds of some seed the activations do not differ between devices: the column is 0."""
    seeds = _numbers(view, label, until, column).values()
    return any(2 * sum(value < ROUNDING for value in values) > len(values) for values in seeds)


def _constant(view: ExperimentView, label: str, learned: str | None) -> list[Reason]:
    """Return a reason if the networks of a series predict a single class; two seeds are needed to see it."""
    if learned is None:
        return []
    accuracies = view.sibling(learned)
    ends = [value for curve in accuracies.curves(label).values() for _, value in curve[-LAST_ROUNDS:]]
    if len(ends) < 2 * LAST_ROUNDS or max(ends) - min(ends) > ROUNDING:
        return []
    accuracy = format_target(accuracies.measure, ends[0])
    return [make_reason(ReasonKind.ONE_CLASS, series=label, value=accuracy, rounds=LAST_ROUNDS)]


def _numbers(view: ExperimentView, label: str, until: int | None, column: str) -> dict[int, list[float]]:
    """Return seed -> the numbers in the column of the rows of rounds up to `until`; some cells are empty."""
    numbers: dict[int, list[float]] = {}
    for row in view.results.rows_without_diverged(label):
        if until is None or int(row["round"]) <= until:
            numbers.setdefault(int(row["seed"]), []).extend([float(row[column])] if row[column] else [])
    return numbers
