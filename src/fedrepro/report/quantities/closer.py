"""That the activations of a series' devices are closer to their common mean than the baseline's: of each seed's run the mean
divergence over rounds and devices, the difference in percent of the baseline's, only its sign judged. Activations that do not
differ at all are nothing to compare with or to praise: such a network is dead. Nor are those of one that answers with one
class: it has one accuracy in the last rounds of all seeds, which `learned`, the experiment with these accuracies, tells."""

from statistics import fmean
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel, Ref
from fedrepro.report.inputs.references import Known
from fedrepro.report.numbers import amount
from fedrepro.report.quantities import base
from fedrepro.report.statistics import EQUAL

ENDS = 10  # rounds


class Cell(base.Cell):
    baseline: str
    learned: str | None = None
    study: ClassVar = "activations"
    word: ClassVar = "closer"
    signed: ClassVar = True

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

    def absent(self, panel: Panel) -> str:
        found = {label: _means(panel, label) for label in self.labels}
        if unmeasured := [label for label, seeds in found.items() if not seeds]:
            return f"no activations of {' and '.join(unmeasured)}"
        if equal := [label for label in self.labels if _equal(panel, label)]:
            return f"in most rounds the activations of {' and '.join(equal)} do not differ at all, as where every unit is dead"
        if constant := [told for label in self.labels if (told := _constant(panel, label, self.learned))]:
            return "; ".join(constant)
        return base.unpaired(found)

    def values(self, panel: Panel) -> tuple[list[float], str]:
        method, other = (_means(panel, label) for label in self.labels)
        return [method[seed] / other[seed] - 1 for seed in sorted(method)], ""

    def margins(self, panel: Panel, label: str) -> list[float]:
        return self.found(panel)[0]

    def against(self, measure: Measure) -> str:
        return f"{self.series} is held against {self.baseline}"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        closer, farther = (f"{one}'s are closer" for one in (self.series, self.baseline))
        return closer, "the interval of the difference contains zero", farther

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return f"{100 * value:{'+' if signed else ''}z.{digits}f} %"

    def axis(self, measure: Measure) -> str:
        return f"divergence above {self.baseline}'s (%)"

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value


def _means(panel: Panel, label: str) -> dict[int, float]:
    """Seed -> mean divergence."""
    return {seed: fmean(values) for seed, values in _divergences(panel, label).items()}


def _equal(panel: Panel, label: str) -> bool:
    """Whether the devices of some seed have the same activations, for most of their rows."""
    seeds = _divergences(panel, label).values()
    return any(2 * sum(value < EQUAL for value in values) > len(values) for values in seeds)


def _constant(panel: Panel, label: str, learned: str | None) -> str:
    """That a series' networks answer with one class; empty where they do not, or where one seed cannot tell."""
    if learned is None:
        return ""
    beside = panel.beside(learned)
    ends = [value for curve in beside.curves(label).values() for _, value in curve[-ENDS:]]
    if len(ends) < 2 * ENDS or max(ends) - min(ends) > EQUAL:
        return ""
    return f"{label} answers with one class: {amount(beside.measure, ends[0])} in the last {ENDS} rounds of all seeds"


def _divergences(panel: Panel, label: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for row in panel.results.good(label):
        found.setdefault(int(row["seed"]), []).append(float(row["divergence"]))
    return found
