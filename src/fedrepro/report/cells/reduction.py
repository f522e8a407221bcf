"""The saving of rounds: 1 - rounds(series) / rounds(baseline), both to the same target, of the same seed."""

import math
from typing import ClassVar

from fedrepro.measures import Measure
from fedrepro.metrics import Curve
from fedrepro.report.cells import base
from fedrepro.report.evidence import Panel


class Cell(base.ToTarget):
    baseline: str
    signed: ClassVar = True

    @property
    def labels(self) -> list[str]:
        return [self.series, self.baseline]

    def value(self, panel: Panel, curve: Curve, baseline: Curve) -> float | str:
        reached, needed = (panel.rounds_to(one, self.target, self.smooth) for one in (curve, baseline))
        if reached is None:
            return self.missed(panel, self.series, curve)
        if needed is None:
            return f"{self.missed(panel, self.baseline, baseline)}; {self.series} does at {reached}"
        return 1 - reached / needed

    def signs(self, panel: Panel) -> set[int]:
        method, other = (self._arrivals(panel, label) for label in self.labels)
        if method.keys() != other.keys():
            return set()
        return {(method[seed] < other[seed]) - (method[seed] > other[seed]) for seed in method}

    def _arrivals(self, panel: Panel, label: str) -> dict[int, float]:
        """Seed -> rounds; infinite where it does not arrive."""
        curves = panel.curves(label)
        return {seed: panel.rounds_to(curve, self.target, self.smooth) or math.inf for seed, curve in curves.items()}

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.fraction(value)

    def axis(self, measure: Measure) -> str:
        return f"rounds saved against {self.baseline} (%)"

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value
