"""Rounds until a series has converged: the first whose value, as a mean of `smooth` rounds, comes within `within` of the best
that its run has."""

from typing import ClassVar

from fedrepro.fields import Count, NonNegative
from fedrepro.measures import Measure
from fedrepro.metrics import Curve
from fedrepro.report.cells import base
from fedrepro.report.evidence import Panel


class Cell(base.OfCurves):
    within: NonNegative
    smooth: Count = 1
    absolute: ClassVar = "a number of rounds"

    def value(self, panel: Panel, curve: Curve, baseline: None) -> float | str:
        worse = -1 if panel.measure.score == "loss" else 1
        reached = panel.rounds_to(curve, panel.best(curve, self.smooth) - worse * self.within, self.smooth)
        return f"{self.series} has no {self.smooth} rounds" if reached is None else float(reached)

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.counted(value, "round")

    def axis(self, measure: Measure) -> str:
        return "rounds until it has converged"
