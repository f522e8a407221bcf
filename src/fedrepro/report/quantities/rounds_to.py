"""Rounds of communication until a series reaches a target."""

import math

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.numbers import ROUNDS, Unit
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason
from fedrepro.report.statistics import Curve


class Cell(base.ToTarget):
    def unit(self, measure: Measure) -> Unit:
        return ROUNDS

    def label(self, measure: Measure) -> str:
        return "rounds to the target"

    def about(self, measure: Measure) -> str:
        return f"The first round at the target{base.averaged(self.smooth)}."

    def value(self, panel: Panel, curve: Curve, baseline: None) -> float | Reason:
        reached = self.reached(panel, curve)
        return self.missed(panel, self.series, curve) if reached is None else float(reached)

    def needs(self, reported: float, tolerance: float) -> int:
        return math.ceil(reported + tolerance)
