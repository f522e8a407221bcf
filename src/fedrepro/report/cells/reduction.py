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

    def limits(self, measure: Measure) -> tuple[float, float]:
        return -math.inf, 1

    def value(self, panel: Panel, curve: Curve, baseline: Curve) -> float | str:
        reached, needed = (panel.rounds_to(one, self.target, self.smooth) for one in (curve, baseline))
        if reached is None:
            return self.missed(panel, self.series, curve)
        if needed is None:
            return f"{self.missed(panel, self.baseline, baseline)}; {self.series} does at {reached}"
        return 1 - reached / needed

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.fraction(value)

    def gap(self, value: float, measure: Measure, digits: int) -> str:
        return base.apart(value)

    def axis(self, measure: Measure) -> str:
        return f"rounds saved against {self.baseline} (%)"

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value
