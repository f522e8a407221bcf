"""That a series keeps most of the gain that another one, the `whole`, has over the baseline: that gain, and how far the series
lies above the middle of the two, seed by seed; only the signs are judged. Of no gain nothing can be kept."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import higher


class Cell(higher.Cell):
    whole: str
    word: ClassVar = "most"
    least: ClassVar = None

    @property
    def labels(self) -> list[str]:
        return [*super().labels, self.whole]

    def values(self, panel: Panel) -> tuple[list[float], str]:
        own = self.of(self.series).found(panel)[0]
        return [kept - gain / 2 for kept, gain in zip(own, self._gains(panel), strict=True)], ""

    def required(self, panel: Panel) -> list[list[float]]:
        return [self._gains(panel), *super().required(panel)]

    def _gains(self, panel: Panel) -> list[float]:
        return self.of(self.whole).found(panel)[0]

    def against(self, measure: Measure) -> str:
        return f"{self.series} is held against the middle of {self.baseline} and {self.whole}, which has to be higher"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        return (
            f"{self.whole} has no gain over {self.baseline}, or {self.series} keeps less than half of it",
            f"the interval of {self.whole}'s gain, or that of what {self.series} keeps beyond half of it, contains zero",
            f"{self.series} keeps more than half of {self.whole}'s gain over {self.baseline}",
        )
