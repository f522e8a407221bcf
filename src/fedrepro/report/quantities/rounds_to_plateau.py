"""Rounds until a series has converged: the first whose value, as a mean of `smooth` rounds, comes within `within` of the best
that its run has."""

from fedrepro.config.types import Count, NonNegative
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import ROUNDS, Unit, difference_unit_name, display_factor
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason
from fedrepro.report.statistics import Curve


class Quantity(base.CurveQuantity):
    within: NonNegative
    smooth: Count = 1

    def unit(self, measure: Measure) -> Unit:
        return ROUNDS

    def label(self, measure: Measure) -> str:
        return "rounds until it has converged"

    def description(self, measure: Measure) -> str:
        near = f"{display_factor(measure) * self.within:g} {difference_unit_name(measure)}"
        return f"The first round that comes within {near} of the best{base.averaging_phrase(self.smooth)}."

    def missing(self, panel: ExperimentView) -> list[Reason]:
        return super().missing(panel) or base.too_short(panel.curves(self.series).values(), self.smooth)

    def seed_value(self, panel: ExperimentView, curve: Curve, baseline: None) -> float:
        near = panel.best(curve, self.smooth) - panel.sign * self.within
        return float(panel.rounds_to(curve, near, self.smooth))
