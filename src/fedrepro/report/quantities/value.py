"""The value of a series in the measure of the experiment, e.g. an accuracy: the mean of the `last` rounds, or the value at a
`round`, averaged over the `smooth` rounds that end there."""

import math

from pydantic import model_validator

from fedrepro.config.types import Count
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import Unit, measure_unit
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import Curve, at_round, mean_last


class Quantity(base.CurveQuantity):
    last: Count | None = None
    round: Count | None = None
    smooth: Count = 1

    @model_validator(mode="after")
    def _one_reduction(self) -> "Quantity":
        if (self.last is None) == (self.round is None):
            raise ValueError(f"a quantity of kind {self.kind} needs last or round (one of them)")
        return self

    def unit(self, measure: Measure) -> Unit:
        return measure_unit(measure)

    def label(self, measure: Measure) -> str:
        return measure.axis

    def description(self, measure: Measure) -> str:
        if self.last:
            return "After the last round." if self.last == 1 else f"Mean of the values measured in the last {self.last} rounds."
        window = f"Mean of the values measured in the {self.smooth} rounds up to {self.round}."
        return f"Round {self.round}." if self.smooth == 1 else window

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (0, 1) if measure.percent else (0, math.inf)

    def level(self, curve: Curve) -> float | None:
        """Return the value of one curve; None if it ends before `round`."""
        if self.last is not None:
            return mean_last(curve, self.last)
        assert self.round is not None  # one of them is given
        return at_round(curve, self.round, self.smooth)

    def missing(self, view: ExperimentView) -> list[Reason]:
        short = [label for label in self.labels if None in map(self.level, view.curves(label).values())]
        return super().missing(view) or ([make_reason(ReasonKind.NO_ROUND, series=short, round=self.round)] if short else [])

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float:
        level = self.level(curve)
        assert level is not None  # `missing` returned no reason
        return level

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return self.round or self.last or 0
