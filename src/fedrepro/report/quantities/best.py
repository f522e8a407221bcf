"""The best value of a series in all rounds or up to `round`. A claim may report that it "never" reaches `target`."""

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

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float:
        return view.best(self._counted(curve), self.smooth)

    def arrival_round(self, view: ExperimentView, curve: Curve) -> int | None:
        return super().arrival_round(view, self._counted(curve))

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return self.round or 0

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        return [estimate([view.sign * (value - self.target) for value in self.values(view)])]

    def _counted(self, curve: Curve) -> Curve:
        return [point for point in curve if point[0] <= (self.round or point[0])]
