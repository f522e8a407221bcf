"""That the activations of a series' devices are closer to their common mean than the baseline's: of each seed's run the mean
divergence over rounds and devices, the difference in percent of the baseline's, only its sign judged. Activations that do not
differ at all are nothing to compare with or to praise: such a network is dead. Nor are those of one that answers with one
class: it has one accuracy in the last rounds of all seeds, which `learned`, the experiment with these accuracies, tells."""

from statistics import fmean
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel, Ref
from fedrepro.report.inputs.references import Known
from fedrepro.report.numbers import CHANGE, Unit, amount
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, Why, reason
from fedrepro.report.statistics import EQUAL

ENDS = 10  # rounds


class Cell(base.Cell):
    baseline: str
    learned: str | None = None
    study: ClassVar = "activations"
    contrast: ClassVar = True

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"closer": base.Expected(sign=-1)}

    @property
    def numeric(self) -> bool:
        return False

    def unit(self, measure: Measure) -> Unit:
        return CHANGE

    def label(self, measure: Measure) -> str:
        return f"divergence above {self.baseline}'s (%)"

    @property
    def others(self) -> list[str]:
        return [self.learned] if self.learned else []

    @property
    def unseen(self) -> list[str]:
        return self.others

    def check(self, known: Known, ref: Ref) -> None:
        super().check(known, ref)
        if self.learned:
            known.at("learned").ref(Ref(experiment=self.learned), self.labels)

    def absent(self, panel: Panel) -> list[Reason]:
        means = {label: _means(panel, label) for label in self.labels}
        if unmeasured := [label for label, seeds in means.items() if not seeds]:
            return [reason(Why.UNMEASURED, what="activations", series=unmeasured)]
        if equal := [label for label in self.labels if _equal(panel, label)]:
            return [reason(Why.DEAD, series=equal)]
        constant = [found for label in self.labels for found in _constant(panel, label, self.learned)]
        return constant or base.unpaired(means)

    def values(self, panel: Panel) -> list[float]:
        method, other = (_means(panel, label) for label in self.labels)
        return [method[seed] / other[seed] - 1 for seed in sorted(method)]


def _means(panel: Panel, label: str) -> dict[int, float]:
    """Seed -> mean divergence."""
    return {seed: fmean(values) for seed, values in _divergences(panel, label).items()}


def _equal(panel: Panel, label: str) -> bool:
    """Whether the devices of some seed have the same activations, for most of their rows."""
    seeds = _divergences(panel, label).values()
    return any(2 * sum(value < EQUAL for value in values) > len(values) for values in seeds)


def _constant(panel: Panel, label: str, learned: str | None) -> list[Reason]:
    """That a series' networks answer with one class; one seed cannot tell."""
    if learned is None:
        return []
    beside = panel.beside(learned)
    ends = [value for curve in beside.curves(label).values() for _, value in curve[-ENDS:]]
    if len(ends) < 2 * ENDS or max(ends) - min(ends) > EQUAL:
        return []
    return [reason(Why.ONE_CLASS, series=label, value=amount(beside.measure, ends[0]), rounds=ENDS)]


def _divergences(panel: Panel, label: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for row in panel.results.good(label):
        found.setdefault(int(row["seed"]), []).append(float(row["divergence"]))
    return found
