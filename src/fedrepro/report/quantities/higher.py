"""That a series ends above its baseline, where no number is claimed: the difference, seed by seed, only its sign judged. Less
than `least` is no lead."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import difference
from fedrepro.report.statistics import SLACK, Estimate


class Cell(difference.Cell):
    least: ClassVar[float | None] = 0.001  # less is no lead: a tenth of a point, our choice, as papers print no more digits
    word: ClassVar = "higher"
    holds: ClassVar = 1

    def margins(self, panel: Panel, label: str) -> list[float]:
        return self.found(panel)[0]

    def against(self, measure: Measure) -> str:
        return f"{self.series} is held against {self.baseline}"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        lower, higher = (f"{one} is higher" for one in (self.baseline, self.series))
        return lower, "the interval of the difference contains zero", higher

    def nothing(self, margins: Estimate, measure: Measure) -> str:
        if self.least is None or margins.high is None or margins.high >= self.least - SLACK:
            return ""
        return f"the interval contains zero and no lead as large as {self.gap(self.least, measure, 1)}"

    def digits(self, reported: str, measure: Measure) -> int:
        return 2
