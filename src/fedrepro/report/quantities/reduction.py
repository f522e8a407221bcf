"""The saving of rounds: 1 - rounds(series) / rounds(baseline), both to the same target, of the same seed."""

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import base
from fedrepro.report.statistics import Curve


class Cell(base.Saving, base.ToTarget):
    baseline: str

    def value(self, panel: Panel, curve: Curve, baseline: Curve) -> float | str:
        reached, needed = (panel.rounds_to(one, self.target, self.smooth) for one in (curve, baseline))
        if reached is None:
            return self.missed(panel, self.series, curve)
        if needed is None:
            return f"{self.missed(panel, self.baseline, baseline)}; {self.series} does at {reached}"
        return 1 - reached / needed

    def axis(self, measure: Measure) -> str:
        return f"rounds saved against {self.baseline} (%)"
