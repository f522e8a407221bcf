"""Bytes more than the baseline's, down and up together, of a round: bytes(series) / bytes(baseline) - 1, seed by seed."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.numbers import megabytes
from fedrepro.report.quantities import base


class Cell(base.Cell):
    baseline: str
    plotted: ClassVar = False
    absolute: ClassVar = "a number of bytes"  # which way it goes is no question

    def absent(self, panel: Panel) -> str:
        return base.unpaired({label: self._rates(panel, label) for label in self.labels})

    def values(self, panel: Panel) -> tuple[list[float], str]:
        ours, usual = (self._rates(panel, label) for label in self.labels)
        return [ours[seed] / usual[seed] - 1 for seed in sorted(ours)], ""

    def _rates(self, panel: Panel, label: str) -> dict[int, float]:
        """Seed -> 10^6 bytes of a round."""
        return {run["seed"]: megabytes(run) for run in panel.results.runs(label)}

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return f"{'+' if signed and value > 0 else ''}{base.fraction(value)}"

    def gap(self, value: float, measure: Measure, digits: int) -> str:
        return base.apart(value)

    def axis(self, measure: Measure) -> str:
        return f"bytes more than {self.baseline} (%)"

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value
