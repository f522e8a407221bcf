"""Epochs of local training that new clients need, mean over those of a run; only where all of them arrive."""

from typing import ClassVar

from fedrepro.measures import Measure
from fedrepro.report.cells import base
from fedrepro.report.cells._epochs import STUDY, late, means
from fedrepro.report.evidence import Panel


class Cell(base.Cell):
    study: ClassVar = STUDY
    absolute: ClassVar = "a number of epochs"

    def found(self, panel: Panel) -> tuple[list[float], str]:
        if problem := self.lost(panel) or late(panel.results, self.labels):
            return [], problem
        values = list(means(panel.results, self.series).values())
        return values, "" if values else f"{self.series} has no new clients"

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return f"{value:.1f} epochs"

    def axis(self, measure: Measure) -> str:
        return "epochs of new clients"
