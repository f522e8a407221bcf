"""Epochs of local training that new clients need, mean over those of a run; only where all of them arrive."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import base
from fedrepro.report.quantities._epochs import STUDY, arrivals, late, margins, means


class Cell(base.Cell):
    study: ClassVar = STUDY
    absolute: ClassVar = "a number of epochs"

    def absent(self, panel: Panel) -> str:
        return "" if means(panel.results, self.series) else f"{self.series} has no new clients"

    def values(self, panel: Panel) -> tuple[list[float], str]:
        if problem := late(panel.results, self.labels):
            return [], problem
        return list(means(panel.results, self.series).values()), ""

    def margins(self, panel: Panel, label: str) -> list[float]:
        return margins(panel.results, label)

    def arrived(self, panel: Panel) -> str:
        if self.lost(panel) or self.absent(panel):
            return ""
        return "; ".join(f"{label}: {self._there(panel, label)}" for label in self.labels)

    def _there(self, panel: Panel, label: str) -> str:
        epochs = [epoch for clients in arrivals(panel.results, label).values() for epoch in clients.values()]
        return f"{len(epochs) - epochs.count(None)} of {len(epochs)} new clients arrive"

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return f"{value:.1f} epochs"

    def axis(self, measure: Measure) -> str:
        return "epochs of new clients"
