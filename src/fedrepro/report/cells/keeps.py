"""That a series keeps most of the gain that another one, the `whole`, has over the baseline: seed by seed how far it lies above
the middle of the two, or that gain itself where it is smaller, so that of no gain nothing can be kept. Its sign is judged."""

from typing import ClassVar

from fedrepro.measures import Measure
from fedrepro.report.cells import higher
from fedrepro.report.evidence import Panel


class Cell(higher.Cell):
    whole: str
    word: ClassVar = "most"
    least: ClassVar = None

    @property
    def labels(self) -> list[str]:
        return [*super().labels, self.whole]

    def values(self, panel: Panel) -> tuple[list[float], str]:
        own, gains = (self.of(name).found(panel)[0] for name in (self.series, self.whole))
        return [min(gain, kept - gain / 2) for kept, gain in zip(own, gains, strict=True)], ""

    def against(self, measure: Measure) -> str:
        return f"{self.series} is held against the middle of {self.baseline} and {self.whole}, which has to be higher"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        return (
            f"{self.whole} has no gain over {self.baseline}, or {self.series} keeps less than half of it",
            "the interval contains zero",
            f"{self.series} keeps more than half of {self.whole}'s gain over {self.baseline}",
        )
