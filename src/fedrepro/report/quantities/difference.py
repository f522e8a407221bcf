"""series - baseline of the same seed: of the means of the `last` rounds, or of the values at a `round`. A claim that reports a
word is judged by its sign: that the series is "higher"; with `slack` that it is "no lower", by more than that where sizes are
judged; with `than`, another experiment, that it has a lead and a "larger" one than there; with `whole`, another series, that it
keeps "most" of the lead which that one has."""

from typing import ClassVar

from fedrepro.config.types import Fraction
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Unit, difference_unit, difference_unit_name
from fedrepro.report.quantities import base, value
from fedrepro.report.reasons import Reason
from fedrepro.report.statistics import Curve

MINIMUM_LEAD = 0.001  # a smaller lead is none: a tenth of a point, our choice, as papers print no more digits


class Quantity(value.Quantity):
    baseline: str
    slack: Fraction | None = None
    than: str | None = None
    whole: str | None = None
    contrast: ClassVar = True

    @property
    def labels(self) -> list[str]:
        return [*super().labels, *filter(None, [self.whole])]

    @property
    def other_experiments(self) -> list[str]:
        return [self.than] if self.than else []

    @property
    def expected(self) -> dict[str, base.Expected]:
        if self.slack is not None:
            return {"no lower": base.Expected(tested=False)}
        if self.reports_number:
            return {"higher": base.Expected(minimum=MINIMUM_LEAD)}
        return {"larger" if self.than else "most": base.Expected()}

    @property
    def reports_number(self) -> bool:
        return self.slack is None and self.than is None and self.whole is None

    def unit(self, measure: Measure) -> Unit:
        return difference_unit(measure)

    def label(self, measure: Measure) -> str:
        return f"{measure.title} above {self.baseline} ({difference_unit_name(measure)})"

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        if self.than:
            measure = ref.resolved(checker.display_options).measure
            checker.at("than").check_ref(ExperimentRef(experiment=self.than, measure=measure), self.labels)

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if measure.percent else base.Quantity.bounds(self, measure)

    def diverged(self, panel: ExperimentView) -> list[Reason]:
        return [found for one in self._panels(panel) for found in base.Quantity.diverged(self, one)]

    def missing(self, panel: ExperimentView) -> list[Reason]:
        panels = self._panels(panel)
        found = [found for one in panels for found in value.Quantity.missing(self, one)]
        return found or base.unpaired_seeds({f"{self.series} in {one.key}": one.curves(self.series) for one in panels})

    def seed_value(self, panel: ExperimentView, curve: Curve, baseline: Curve) -> float:
        return self.level(curve) - self.level(baseline)

    def lead(self, panel: ExperimentView, series: str) -> list[float]:
        """How far a series lies above the baseline."""
        curves = panel.curves(series)
        return [self.seed_value(panel, curves[seed], curve) for seed, curve in sorted(panel.curves(self.baseline).items())]

    def values(self, panel: ExperimentView) -> list[float]:
        lead = self.lead(panel, self.series)
        if self.than:
            return [here - there for here, there in zip(lead, self.lead(panel.sibling(self.than), self.series), strict=True)]
        if self.whole:
            return [own - gain / 2 for own, gain in zip(lead, self.lead(panel, self.whole), strict=True)]
        return lead

    def contrasts(self, panel: ExperimentView) -> list[list[float]]:
        values = self.values(panel)
        if self.than or self.whole:  # of no lead none is larger, and nothing can be kept
            return [self.lead(panel, self.whole or self.series), values]
        return [[value + (self.slack or 0) for value in values]] if panel.comparable else [values]

    def _panels(self, panel: ExperimentView) -> list[ExperimentView]:
        return [panel, panel.sibling(self.than)] if self.than else [panel]
