"""That a series does not reach a target (within `round` rounds, where given): a claim that is no number. Its values are the
best ones of each seed's run, which are held against the target."""

from typing import ClassVar

from fedrepro.config.types import Count
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.numbers import amount, factor
from fedrepro.report.quantities import base
from fedrepro.report.statistics import Curve


class Cell(base.ToTarget):
    round: Count | None = None
    word: ClassVar = "never"
    absolute: ClassVar = base.ROUNDS

    def value(self, panel: Panel, curve: Curve, baseline: None) -> float:
        return panel.best(self._counted(curve), self.smooth)

    def needs(self, reported: str, tolerance: float) -> int:
        return self.round or 0

    def curves(self, panel: Panel, label: str) -> dict[int, Curve]:
        return {seed: self._counted(curve) for seed, curve in panel.curves(label).items()}

    def arrived(self, panel: Panel) -> str:
        text = super().arrived(panel)
        return f"reached in {text}" if text and any(round is not None for round in self.reached(panel, self.series)) else text

    def against(self, measure: Measure) -> str:
        return f"the best value is held against {amount(measure, self.target)}"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        target = amount(panel.measure, self.target)
        unsure = f"the interval of the best values contains {target}"
        return f"the best values fall short of {target}", unsure, f"the best values are better than {target}"

    def _counted(self, curve: Curve) -> Curve:
        return [point for point in curve if point[0] <= (self.round or point[0])]

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return base.level(value, measure, digits)

    def axis(self, measure: Measure) -> str:
        return f"best {measure.axis}"

    def drawn(self, value: float, measure: Measure) -> float:
        return factor(measure) * value
