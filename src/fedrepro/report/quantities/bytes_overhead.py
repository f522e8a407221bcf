"""The bytes that a series sends per round, down and up, relative to its baseline: bytes(series) / bytes(baseline) - 1."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import CHANGE, Unit, megabytes_per_round
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason


class Quantity(base.Quantity):
    baseline: str
    from_curves: ClassVar = False

    def unit(self, measure: Measure) -> Unit:
        return CHANGE

    def label(self, measure: Measure) -> str:
        return f"bytes more than {self.baseline} (%)"

    def missing(self, view: ExperimentView) -> list[Reason]:
        return base.unpaired_seeds({label: self._rates(view, label) for label in self.labels})

    def values(self, view: ExperimentView) -> list[float]:
        series, baseline = (self._rates(view, label) for label in self.labels)
        return [series[seed] / baseline[seed] - 1 for seed in sorted(series)]

    def _rates(self, view: ExperimentView, label: str) -> dict[int, float]:
        """Return seed -> 10^6 bytes per round."""
        return {run["seed"]: megabytes_per_round(run) for run in view.results.runs(label)}
