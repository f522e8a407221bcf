"""series - baseline of the same seed: of the means of the `last` rounds, or of the values at a `round`. A claim that reports a
word is judged by its sign: that the series is "higher"; with `slack` that it is "no lower", by more than that where sizes are
judged; with `than`, another experiment, that it has a lead and a "larger" one than there; with `whole`, another series, that it
keeps "most" of the lead which that one has. With `also`, other experiments, it is the mean over this one and those, which are
fixed panels of equal weight."""

from dataclasses import replace
from typing import ClassVar

from fedrepro.config.types import Fraction
from fedrepro.core.metrics import Measure
from fedrepro.report.inference import over_panels, probability_of_improvement
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Unit, difference_unit, difference_unit_name
from fedrepro.report.quantities import base, value
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import Curve, Estimate, estimate

MINIMUM_LEAD = 0.04  # log odds: a smaller lead is none, our choice; of an accuracy 1 point at 50 %, 0.36 at 90 %, 0.04 at 99 %
MINIMUM_LOSS_LEAD = 0.001  # nats; the same of a loss


class Quantity(value.Quantity):
    baseline: str
    slack: Fraction | None = None
    than: str | None = None
    whole: str | None = None
    also: tuple[str, ...] = ()
    contrast: ClassVar = True

    @property
    def labels(self) -> list[str]:
        return [*super().labels, *filter(None, [self.whole])]

    @property
    def other_experiments(self) -> list[str]:
        return [*filter(None, [self.than]), *self.also]

    @property
    def expected(self) -> dict[str, base.Expected]:
        if self.slack is not None:
            return {"no lower": base.Expected(tested=False)}
        if self.reports_number:
            return {"higher": base.Expected(is_lead=True)}
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
        measure = ref.resolved(checker.display_options).measure
        for key, experiment in [("than", self.than)] * bool(self.than) + [("also", name) for name in self.also]:
            checker.at(key).check_ref(ExperimentRef(experiment=experiment, measure=measure), self.labels)

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if measure.percent else base.Quantity.bounds(self, measure)

    def diverged(self, panel: ExperimentView) -> list[Reason]:
        return [found for one in self._panels(panel) for found in base.Quantity.diverged(self, one)]

    def missing(self, panel: ExperimentView) -> list[Reason]:
        panels = self._panels(panel)
        found = [found for one in panels for found in value.Quantity.missing(self, one)]
        if found or self.also:
            return found
        return base.unpaired_seeds({f"{self.series} in {one.key}": one.curves(self.series) for one in panels})

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
        if self.also:
            return [lead for one in self._panels(panel) for lead in self.lead(one, self.series)]
        if self.whole:
            return [own - gain / 2 for own, gain in zip(lead, self.lead(panel, self.whole), strict=True)]
        return lead

    def estimate(self, panel: ExperimentView) -> Estimate:
        if self.also:
            return over_panels([self.lead(one, self.series) for one in self._panels(panel)])
        return super().estimate(panel)

    def contrasts(self, panel: ExperimentView) -> list[Estimate]:
        found = self.estimate(panel)
        if self.than or self.whole:  # of no lead none is larger, and nothing can be kept
            return [estimate(self.lead(panel, self.whole or self.series)), found]
        return [replace(found, mean=found.mean + (self.slack or 0))] if panel.comparable else [found]

    @property
    def panels(self) -> int:
        return 1 + len(self.also)

    def evidence(self, panel: ExperimentView) -> list[Reason]:
        if not self.also:
            return []
        values, leads = self.panel_values(panel), self.values(panel)
        probability, low, high = probability_of_improvement([ours for ours, _ in values], [other for _, other in values])
        return [
            make_reason(
                ReasonKind.POOLED,
                panels=self.panels,
                ahead=sum(lead > 0 for lead in leads),
                pairs=len(leads),
                probability=f"{probability:.2f} ({low:.2f} to {high:.2f})",
            )
        ]

    def minimum_lead(self, panel: ExperimentView) -> float:
        """Return the smallest lead that counts beside the baseline's level, in the unit of the measure."""
        if not panel.measure.percent:
            return MINIMUM_LOSS_LEAD
        levels = [level for _, baseline in self.panel_values(panel) for level in baseline]
        level = sum(levels) / len(levels)
        return MINIMUM_LEAD * level * (1 - level)

    def panel_values(self, panel: ExperimentView) -> list[tuple[list[float], list[float]]]:
        """Return the values of the series and of the baseline in each panel, by seed."""
        views = self._panels(panel)
        return [
            tuple([self.level(curve) for _, curve in sorted(one.curves(label).items())] for label in self.labels)
            for one in views
        ]

    def _panels(self, panel: ExperimentView) -> list[ExperimentView]:
        return [panel, *map(panel.sibling, self.other_experiments)]
