"""Bytes more than the baseline's, down and up together, of a round: bytes(series) / bytes(baseline) - 1, seed by seed."""

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

    def missing(self, panel: ExperimentView) -> list[Reason]:
        return base.unpaired_seeds({label: self._rates(panel, label) for label in self.labels})

    def values(self, panel: ExperimentView) -> list[float]:
        ours, usual = (self._rates(panel, label) for label in self.labels)
        return [ours[seed] / usual[seed] - 1 for seed in sorted(ours)]

    def _rates(self, panel: ExperimentView, label: str) -> dict[int, float]:
        """Seed -> 10^6 bytes of a round."""
        return {run["seed"]: megabytes_per_round(run) for run in panel.results.runs(label)}
