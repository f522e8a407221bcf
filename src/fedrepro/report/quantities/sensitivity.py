"""How much a value depends on a setting: the largest less the smallest value of several series with the same seed, `series` and
`others`, less the same of `than_series` in the experiment `than`. A claim may report that it is "smaller"."""

import math
from typing import Annotated, ClassVar

from pydantic import Field

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Unit, difference_unit, difference_unit_name
from fedrepro.report.quantities import base, value
from fedrepro.report.reasons import Reason

SeriesNames = Annotated[tuple[str, ...], Field(min_length=1)]


class Quantity(value.Quantity):
    others: SeriesNames
    than: str
    than_series: SeriesNames
    contrast: ClassVar = True

    @property
    def labels(self) -> list[str]:
        return [self.series, *self.others]

    @property
    def other_experiments(self) -> list[str]:
        return [self.than]

    @property
    def unshown_experiments(self) -> list[str]:
        return [self.than]

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"smaller": base.Expected(sign=-1)}

    @property
    def reports_number(self) -> bool:
        return False

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        checker.at("than").check_ref(ref.model_copy(update={"experiment": self.than}), self.than_series)

    def _values(self, view: ExperimentView) -> list[list[tuple[value.Quantity, ExperimentView]]]:
        """Return the value of each series with its view, of this experiment and of `than`."""
        settings = {"last": self.last, "round": self.round, "smooth": self.smooth}
        return [
            [(value.Quantity(kind="value", series=label, **settings), each) for label in labels]
            for each, labels in ((view, self.labels), (view.sibling(self.than), self.than_series))
        ]

    def diverged(self, view: ExperimentView) -> list[Reason]:
        return [reason for group in self._values(view) for one, each in group for reason in one.diverged(each)]

    def missing(self, view: ExperimentView) -> list[Reason]:
        cells = [cell for group in self._values(view) for cell in group]
        seeds = {f"{one.series} in {each.key}": each.curves(one.series) for one, each in cells}
        return [reason for one, each in cells for reason in one.missing(each)] or base.unpaired_seeds(seeds)

    def values(self, view: ExperimentView) -> list[float]:
        here, there = (
            [max(seed) - min(seed) for seed in zip(*(one.values(each) for one, each in group), strict=True)]
            for group in self._values(view)
        )
        return [own - other for own, other in zip(here, there, strict=True)]

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if measure.percent else (-math.inf, math.inf)

    def unit(self, measure: Measure) -> Unit:
        return difference_unit(measure)

    def label(self, measure: Measure) -> str:
        unit = difference_unit_name(measure)
        return f"range of {measure.title} over {len(self.labels)} series less that in {self.than} ({unit})"
