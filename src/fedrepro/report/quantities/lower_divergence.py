"""The divergence of activations between devices, relative to the baseline: divergence(series) / divergence(baseline) - 1,
each the mean over rounds and devices. A claim may report that it is "lower"; only the sign is judged.

Two kinds of failed networks are not compared, since their activations hardly differ: a dead one, whose activations are equal,
and one that predicts a single class. The latter has the same accuracy in the last rounds of all seeds of `learned`, the
experiment that measures the accuracies."""

from statistics import fmean
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import CHANGE, Unit, format_target
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import ROUNDING

LAST_ROUNDS = 10  # of `learned`, in which the accuracy is constant if one class is predicted


class Quantity(base.Quantity):
    baseline: str
    learned: str | None = None
    study: ClassVar = "activations"
    contrast: ClassVar = True

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"lower": base.Expected(sign=-1)}

    @property
    def reports_number(self) -> bool:
        return False

    def unit(self, measure: Measure) -> Unit:
        return CHANGE

    def label(self, measure: Measure) -> str:
        return f"divergence above {self.baseline}'s (%)"

    @property
    def other_experiments(self) -> list[str]:
        return [self.learned] if self.learned else []

    @property
    def unshown_experiments(self) -> list[str]:
        return self.other_experiments

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        if self.learned:
            checker.at("learned").check_ref(ExperimentRef(experiment=self.learned), self.labels)

    def missing(self, view: ExperimentView) -> list[Reason]:
        means = {label: _means(view, label) for label in self.labels}
        if unmeasured := [label for label, seeds in means.items() if not seeds]:
            return [make_reason(ReasonKind.UNMEASURED, what="activations", series=unmeasured)]
        if equal := [label for label in self.labels if _equal(view, label)]:
            return [make_reason(ReasonKind.DEAD, series=equal)]
        constant = [reason for label in self.labels for reason in _constant(view, label, self.learned)]
        return constant or base.unpaired_seeds(means)

    def values(self, view: ExperimentView) -> list[float]:
        series, baseline = (_means(view, label) for label in self.labels)
        return [series[seed] / baseline[seed] - 1 for seed in sorted(series)]


def _means(view: ExperimentView, label: str) -> dict[int, float]:
    """Return seed -> mean divergence."""
    return {seed: fmean(values) for seed, values in _divergences(view, label).items()}


def _equal(view: ExperimentView, label: str) -> bool:
    """Return whether in most rounds of some seed the activations do not differ between devices."""
    seeds = _divergences(view, label).values()
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


def _divergences(view: ExperimentView, label: str) -> dict[int, list[float]]:
    """Return seed -> divergence of each round and device."""
    divergences: dict[int, list[float]] = {}
    for row in view.results.rows_without_diverged(label):
        divergences.setdefault(int(row["seed"]), []).append(float(row["divergence"]))
    return divergences
