"""That the activations of a series' devices are closer to their common mean than the baseline's: of each seed's run the mean
divergence over rounds and devices, the difference in percent of the baseline's, only its sign judged. Activations that do not
differ at all are nothing to compare with or to praise: such a network is dead."""

from statistics import fmean
from typing import ClassVar

from fedrepro.measures import Measure
from fedrepro.metrics import EQUAL
from fedrepro.report.cells import base
from fedrepro.report.evidence import Panel


class Cell(base.Cell):
    baseline: str
    study: ClassVar = "activations"
    word: ClassVar = "closer"

    def absent(self, panel: Panel) -> str:
        found = {label: _means(panel, label) for label in self.labels}
        if unmeasured := [label for label, seeds in found.items() if not seeds]:
            return f"no activations of {' and '.join(unmeasured)}"
        if equal := [label for label in self.labels if _equal(panel, label)]:
            return f"in most rounds the activations of {' and '.join(equal)} do not differ at all, as where every unit is dead"
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


def _divergences(panel: Panel, label: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for row in panel.results.good(label):
        found.setdefault(int(row["seed"]), []).append(float(row["divergence"]))
    return found
