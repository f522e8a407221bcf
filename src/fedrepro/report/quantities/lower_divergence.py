"""That the activations of a series' devices are closer to their common mean than the baseline's: of each seed's run the mean
divergence over rounds and devices, the difference in percent of the baseline's, only its sign judged. Activations that do not
differ at all are nothing to compare with or to praise: such a network is dead. Nor are those of one that answers with one
class: it has one accuracy in the last rounds of all seeds, which `learned`, the experiment with these accuracies, tells."""

from statistics import fmean
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import CHANGE, Unit, format_target
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import ROUNDING

ENDS = 10  # rounds


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

    def missing(self, panel: ExperimentView) -> list[Reason]:
        means = {label: _means(panel, label) for label in self.labels}
        if unmeasured := [label for label, seeds in means.items() if not seeds]:
            return [make_reason(ReasonKind.UNMEASURED, what="activations", series=unmeasured)]
        if equal := [label for label in self.labels if _equal(panel, label)]:
            return [make_reason(ReasonKind.DEAD, series=equal)]
        constant = [found for label in self.labels for found in _constant(panel, label, self.learned)]
        return constant or base.unpaired_seeds(means)

    def values(self, panel: ExperimentView) -> list[float]:
        method, other = (_means(panel, label) for label in self.labels)
        return [method[seed] / other[seed] - 1 for seed in sorted(method)]


def _means(panel: ExperimentView, label: str) -> dict[int, float]:
    """Seed -> mean divergence."""
    return {seed: fmean(values) for seed, values in _divergences(panel, label).items()}


def _equal(panel: ExperimentView, label: str) -> bool:
    """Whether the devices of some seed have the same activations, for most of their rows."""
    seeds = _divergences(panel, label).values()
    return any(2 * sum(value < ROUNDING for value in values) > len(values) for values in seeds)


def _constant(panel: ExperimentView, label: str, learned: str | None) -> list[Reason]:
    """That a series' networks answer with one class; one seed cannot tell."""
    if learned is None:
        return []
    beside = panel.sibling(learned)
    ends = [value for curve in beside.curves(label).values() for _, value in curve[-ENDS:]]
    if len(ends) < 2 * ENDS or max(ends) - min(ends) > ROUNDING:
        return []
    return [make_reason(ReasonKind.ONE_CLASS, series=label, value=format_target(beside.measure, ends[0]), rounds=ENDS)]


def _divergences(panel: ExperimentView, label: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for row in panel.results.finished_rows(label):
        found.setdefault(int(row["seed"]), []).append(float(row["divergence"]))
    return found
