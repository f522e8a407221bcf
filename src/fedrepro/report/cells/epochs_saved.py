"""The saving of new clients' epochs: 1 - epochs(series) / epochs(baseline), each the mean over the new clients of a seed's
run."""

import math
from typing import ClassVar

from fedrepro.measures import Measure
from fedrepro.report.cells import base, epochs
from fedrepro.report.cells._epochs import late, means
from fedrepro.report.evidence import Panel


class Cell(epochs.Cell):
    baseline: str
    absolute: ClassVar = None
    signed: ClassVar = True

    @property
    def labels(self) -> list[str]:
        return [self.series, self.baseline]

    def limits(self, measure: Measure) -> tuple[float, float]:
        return -math.inf, 1

    def absent(self, panel: Panel) -> str:
        found = {label: means(panel.results, label) for label in self.labels}
        if problem := super().absent(panel) or base.unpaired(found):
            return problem
        return f"the new clients of {self.baseline} need no training" if 0 in found[self.baseline].values() else ""

    def found(self, panel: Panel) -> tuple[list[float], str]:
        if problem := self.lost(panel) or self.absent(panel) or late(panel.results, self.labels):
            return [], problem
        method, other = (means(panel.results, label) for label in self.labels)
        return [1 - method[seed] / other[seed] for seed in method], ""

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.fraction(value)

    def gap(self, value: float, measure: Measure, digits: int) -> str:
        return base.apart(value)

    def axis(self, measure: Measure) -> str:
        return f"epochs saved against {self.baseline} (%)"

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value
