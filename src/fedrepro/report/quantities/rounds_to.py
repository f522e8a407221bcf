"""The rounds that a series needs to reach a target. With a `baseline` the saving, 1 - rounds(series) / rounds(baseline)."""

import math
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import ROUNDS
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import Curve


class Quantity(base.CountedQuantity, base.TargetQuantity):
    counted: ClassVar = ROUNDS

    def label(self, measure: Measure) -> str:
        return f"rounds saved against {self.baseline} (%)" if self.baseline else "rounds to the target"

    def description(self, measure: Measure) -> str:
        return "" if self.baseline else f"The first round at the target{base.averaging_phrase(self.smooth)}."

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float | Reason:
        reached = self.arrival_round(view, curve)
        if reached is None:
            return self.missed_reason(view, self.series, curve)
        if baseline is None or self.baseline is None:
            return float(reached)
        needed = self.arrival_round(view, baseline)
        if needed is None:
            missed = self.missed_reason(view, self.baseline, baseline).values
            return make_reason(ReasonKind.ONE_REACHES, **missed, other=self.series, reached=reached)
        return 1 - reached / needed

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return 0 if self.baseline else math.ceil(float(reported) + tolerance)
