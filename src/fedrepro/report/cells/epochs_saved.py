"""The saving of new clients' epochs: 1 - epochs(series) / epochs(baseline), each the mean over the new clients of a seed's
run."""

from typing import ClassVar

from fedrepro.measures import Measure
from fedrepro.report.cells import base
from fedrepro.report.cells._epochs import STUDY, late, means
from fedrepro.report.evidence import Panel


class Cell(base.Cell):
    baseline: str
    study: ClassVar = STUDY
    signed: ClassVar = True

    @property
    def labels(self) -> list[str]:
        return [self.series, self.baseline]

    def found(self, panel: Panel) -> tuple[list[float], str]:
        if problem := self.lost(panel) or late(panel.results, self.labels):
            return [], problem
        method, other = (means(panel.results, label) for label in self.labels)
        common = sorted(set(method) & {seed for seed, mean in other.items() if mean > 0})
        if not common or len(common) < len(method):
            return [], f"the new clients of {self.baseline} need no training"
        return [1 - method[seed] / other[seed] for seed in common], ""

    def signs(self, panel: Panel) -> set[int]:
        method, other = (means(panel.results, label) for label in self.labels)
        if method.keys() != other.keys():
            return set()
        return {(method[seed] < other[seed]) - (method[seed] > other[seed]) for seed in method}

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.fraction(value)

    def axis(self, measure: Measure) -> str:
        return f"epochs saved against {self.baseline} (%)"

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value
