"""The best value of a series (within `round` rounds, where given), beside a `target` that it "never" reaches."""

from fedrepro.config.types import Count
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import Unit, measure_unit
from fedrepro.report.quantities import base
from fedrepro.report.statistics import Curve, Estimate, estimate


class Quantity(base.TargetQuantity):
    round: Count | None = None

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"never": base.Expected(sign=-1, tested=False)}

    def unit(self, measure: Measure) -> Unit:
        return measure_unit(measure)

    def label(self, measure: Measure) -> str:
        return f"best {measure.axis}"

    def seed_value(self, panel: ExperimentView, curve: Curve, baseline: None) -> float:
        return panel.best(self._counted(curve), self.smooth)

    def arrival_round(self, panel: ExperimentView, curve: Curve) -> int | None:
        return super().arrival_round(panel, self._counted(curve))

    def rounds_needed(self, reported: str, tolerance: float) -> int:
        return self.round or 0

    def contrasts(self, panel: ExperimentView) -> list[Estimate]:
        return [estimate([panel.sign * (value - self.target) for value in self.values(panel)])]

    def _counted(self, curve: Curve) -> Curve:
        return [point for point in curve if point[0] <= (self.round or point[0])]
