"""The saving of rounds: 1 - rounds(series) / rounds(baseline), both to the same target, of the same seed."""

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, Why, reason
from fedrepro.report.statistics import Curve


class Cell(base.Saving, base.ToTarget):
    baseline: str

    def value(self, panel: Panel, curve: Curve, baseline: Curve) -> float | Reason:
        reached, needed = self.reached(panel, curve), self.reached(panel, baseline)
        if reached is None:
            return self.missed(panel, self.series, curve)
        if needed is None:
            told = self.missed(panel, self.baseline, baseline).values
            return reason(Why.ONE_REACHES, **told, other=self.series, reached=reached)
        return 1 - reached / needed

    def label(self, measure: Measure) -> str:
        return f"rounds saved against {self.baseline} (%)"
