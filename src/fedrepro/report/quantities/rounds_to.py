"""Rounds of communication until a series reaches a target."""

import math
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import base
from fedrepro.report.statistics import Curve


class Cell(base.ToTarget):
    absolute: ClassVar = base.ROUNDS

    def about(self, measure: Measure) -> str:
        return f"The first round at the target{base.averaged(self.smooth)}."

    def value(self, panel: Panel, curve: Curve, baseline: None) -> float | str:
        reached = panel.rounds_to(curve, self.target, self.smooth)
        return self.missed(panel, self.series, curve) if reached is None else float(reached)

    def needs(self, reported: float, tolerance: float) -> int:
        return math.ceil(reported + tolerance)

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.counted(value, "round")

    def axis(self, measure: Measure) -> str:
        return "rounds to the target"
