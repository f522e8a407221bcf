"""The rounds until a series has converged: the first round whose value, averaged over `smooth` measured rounds, is at most
`within` worse than the best one. A claim may report that it is "later" than round `after`."""

from fedrepro.config.types import Count, NonNegative
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import ROUNDS, Unit, difference_unit_name, display_factor
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason
from fedrepro.report.statistics import Curve, Estimate, estimate


class Quantity(base.CurveQuantity):
    within: NonNegative
    smooth: Count = 1
    after: Count | None = None

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {} if self.after is None else {"later": base.Expected()}

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        return [estimate([value - (self.after or 0) for value in self.values(view)])]

    def unit(self, measure: Measure) -> Unit:
        return ROUNDS

    def label(self, measure: Measure) -> str:
        return "rounds until it has converged"

    def description(self, measure: Measure) -> str:
        near = f"{display_factor(measure) * self.within:g} {difference_unit_name(measure)}"
        return f"The first round that comes within {near} of the best{base.averaging_phrase(self.smooth)}."

    def missing(self, view: ExperimentView) -> list[Reason]:
        return super().missing(view) or base.too_short(view.curves(self.series).values(), self.smooth)

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float:
        plateau = view.best(curve, self.smooth) - view.sign * self.within
        round = view.rounds_to(curve, plateau, self.smooth)
        assert round is not None  # the best value is among them
        return float(round)
