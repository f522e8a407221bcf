"""That a series ends as high as its baseline or higher: the difference, seed by seed, held against `slack` below zero; where
only directions are judged, against zero, since how small a difference is means something else there."""

from typing import ClassVar

from fedrepro.config.types import Fraction
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import higher


class Cell(higher.Cell):
    slack: Fraction  # by so much it may lie below
    word: ClassVar = "no lower"
    least: ClassVar = None
    signed: ClassVar = False  # it may lie below zero

    def margins(self, panel: Panel, label: str) -> list[float]:
        return [value + (self.slack if panel.full else 0) for value in super().margins(panel, label)]

    def against(self, measure: Measure) -> str:
        return f"{self.series} is held against {self.baseline} less {self.gap(self.slack, measure, 2)}"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        if not panel.full:
            return super().sides(panel)
        measure = panel.measure
        by = f"by more than {self.gap(self.slack, measure, 2)}"
        return (
            f"{self.baseline} is higher {by}",
            f"the interval of the difference holds minus {self.gap(self.slack, measure, 2)}",
            f"{self.baseline} is not higher {by}",
        )
