"""The rounds that a series needs to reach a target. With a `baseline` the saving, 1 - rounds(series) / rounds(baseline). With
`than`, another experiment, this saving minus the saving there, to the target `than_target`; a claim may report that the saving
here is "larger"."""

import math
from typing import ClassVar

from fedrepro.config.types import NonNegative
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import ROUNDS
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import Curve


class Quantity(base.CountedQuantity, base.TargetQuantity):
    than: str | None = None
    than_target: NonNegative | None = None  # None: the same target
    counted: ClassVar = ROUNDS

    @property
    def other_experiments(self) -> list[str]:
        return [*filter(None, [self.than])]

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"larger": base.Expected()} if self.than and self.baseline else {}

    @property
    def reports_number(self) -> bool:
        return self.than is None

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        if self.than:
            self._there.check(checker.at("than"), ref.model_copy(update={"experiment": self.than}))

    @property
    def _there(self) -> "Quantity":
        """The same quantity for the other experiment."""
        target = self.target if self.than_target is None else self.than_target
        return self.model_copy(update={"than": None, "target": target})

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-math.inf, math.inf) if self.than else super().bounds(measure)

    def diverged(self, view: ExperimentView) -> list[Reason]:
        return super().diverged(view) + (self._there.diverged(view.sibling(self.than)) if self.than else [])

    def missing(self, view: ExperimentView) -> list[Reason]:
        reasons = super().missing(view)
        if not self.than or reasons:
            return reasons
        views = [view, view.sibling(self.than)]
        seeds = {f"{self.series} in {each.key}": each.curves(self.series) for each in views}
        return self._there.missing(views[1]) or base.unpaired_seeds(seeds)

    def missed_target(self, view: ExperimentView) -> list[Reason]:
        return super().missed_target(view) or (self._there.missed_target(view.sibling(self.than)) if self.than else [])

    def values(self, view: ExperimentView) -> list[float]:
        values = super().values(view)
        if not self.than:
            return values
        there = self._there.values(view.sibling(self.than))
        return [here - elsewhere for here, elsewhere in zip(values, there, strict=True)]

    def label(self, measure: Measure) -> str:
        return f"rounds saved against {self.baseline} (%)" if self.baseline else "rounds to the target"

    def description(self, measure: Measure) -> str:
        return "" if self.baseline else f"The first round at the target{base.averaging_phrase(self.smooth)}."

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float | Reason:
        reached = self.arrival_round(view, curve)
        if reached is None:
            return self.missed_reason(view, self.series, curve)
        if baseline is None or self.baseline is None:
            return float(reached)
        needed = self.arrival_round(view, baseline)
        if needed is None:
            missed = self.missed_reason(view, self.baseline, baseline).values
            return make_reason(ReasonKind.ONE_REACHES, **missed, other=self.series, reached=reached)
        return 1 - reached / needed

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return 0 if self.baseline else math.ceil(float(reported) + tolerance)
