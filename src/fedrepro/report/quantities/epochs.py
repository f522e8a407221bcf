"""Epochs of local training that new clients need, mean over those of a run; only where all of them arrive."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.numbers import EPOCHS, Unit
from fedrepro.report.quantities import _epochs, base
from fedrepro.report.reasons import Reason, Why, reason


class Cell(base.Cell):
    study: ClassVar = _epochs.STUDY

    def unit(self, measure: Measure) -> Unit:
        return EPOCHS

    def label(self, measure: Measure) -> str:
        return "epochs of new clients"

    def absent(self, panel: Panel) -> list[Reason]:
        there = _epochs.means(panel.results, self.series)
        return [] if there else [reason(Why.UNMEASURED, what="new clients", series=self.series)]

    def late(self, panel: Panel) -> list[Reason]:
        return _epochs.late(panel.results, self.labels)

    def values(self, panel: Panel) -> list[float]:
        return list(_epochs.means(panel.results, self.series).values())

    def margins(self, panel: Panel, label: str) -> list[float]:
        return _epochs.margins(panel.results, label)

    def arrivals(self, panel: Panel, label: str) -> str:
        epochs = [epoch for clients in _epochs.arrivals(panel.results, label).values() for epoch in clients.values()]
        return f"{len(epochs) - epochs.count(None)} of {len(epochs)} new clients"
