"""series - baseline of the same seed: of the means of the `last` rounds, or of the values at a `round`."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.numbers import between
from fedrepro.report.quantities import accuracy, base
from fedrepro.report.statistics import Curve


class Cell(accuracy.Cell):
    baseline: str
    absolute: ClassVar = None
    signed: ClassVar = True

    def limits(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if measure.percent else base.Cell.limits(self, measure)

    def of(self, series: str) -> "Cell":
        """The same difference, of a series."""
        options = {"last": self.last, "round": self.round, "smooth": self.smooth, "baseline": self.baseline}
        return Cell(kind="difference", series=series, **options)

    def value(self, panel: Panel, curve: Curve, baseline: Curve) -> float:
        return self.level(curve) - self.level(baseline)

    def digits(self, reported: float, measure: Measure) -> int:
        return base.Cell.digits(self, reported, measure)

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.points(value, measure, signed, digits)

    def axis(self, measure: Measure) -> str:
        return f"{measure.title} above {self.baseline} ({between(measure)})"
