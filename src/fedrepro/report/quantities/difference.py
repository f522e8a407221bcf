"""The lead of a series: its value minus the baseline's with the same seed, each the mean of the `last` rounds or the value at
a `round`. A claim may report a number or a word about the sign:

- "higher": the lead is positive.
- "no lower", with `slack`: the lead is above -`slack` at scale paper, positive at other scales.
- "larger", with `than`, another experiment: the lead there is smaller, and the lead here is positive.
- "most", with `whole`, another series: the lead is more than half of that series' lead, which is positive.

With `also`, other experiments, the value is the mean over this experiment and those, as fixed panels of equal weight.
"""

from dataclasses import replace
from typing import ClassVar

from fedrepro.config.types import Fraction
from fedrepro.core.metrics import Measure
from fedrepro.report.inference import common_seeds, over_panels
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Unit, difference_unit, difference_unit_name
from fedrepro.report.quantities import base, value
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import EPSILON, Curve, Estimate, estimate, mean

MINIMUM_LEAD = 0.04  # log odds; a smaller one counts as none, our choice: 1 point at 50 %, 0.36 at 90 %, 0.04 at 99 %
MINIMUM_LOSS_LEAD = 0.001  # nats; the same for a loss


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
        for key, experiment in [*([("than", self.than)] if self.than else []), *(("also", name) for name in self.also)]:
            checker.at(key).check_ref(ExperimentRef(experiment=experiment, measure=measure), self.labels)

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if measure.percent else base.Quantity.bounds(self, measure)

    def diverged(self, view: ExperimentView) -> list[Reason]:
        return [reason for each in self._views(view) for reason in base.Quantity.diverged(self, each)]

    def missing(self, view: ExperimentView) -> list[Reason]:
        views = self._views(view)
        reasons = [reason for each in views for reason in value.Quantity.missing(self, each)]
        if reasons:
            return reasons
        if self.also:
            return (
                []
                if self._common_seeds(view)
                else base.unpaired_seeds({each.key: each.curves(self.baseline) for each in views})
            )
        return base.unpaired_seeds({f"{self.series} in {each.key}": each.curves(self.series) for each in views})

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float:
        assert baseline is not None
        return super().seed_value(view, curve, None) - super().seed_value(view, baseline, None)

    def lead(self, view: ExperimentView, series: str) -> list[float]:
        """Return per seed how much a series exceeds the baseline."""
        return list(self._leads(view, series).values())

    def _leads(self, view: ExperimentView, series: str) -> dict[int, float]:
        curves = view.curves(series)
        return {seed: self.seed_value(view, curves[seed], curve) for seed, curve in sorted(view.curves(self.baseline).items())}

    def values(self, view: ExperimentView) -> list[float]:
        lead = self.lead(view, self.series)
        if self.than:
            other = self.lead(view.sibling(self.than), self.series)
            return [here - elsewhere for here, elsewhere in zip(lead, other, strict=True)]
        if self.also:
            seeds = self._common_seeds(view)
            return [self._leads(each, self.series)[seed] for each in self._views(view) for seed in seeds]
        if self.whole:
            whole = self.lead(view, self.whole)
            return [part - gain / 2 for part, gain in zip(lead, whole, strict=True)]
        return lead

    def estimate(self, view: ExperimentView) -> Estimate:
        if self.also:
            return over_panels([self._leads(each, self.series) for each in self._views(view)])
        return super().estimate(view)

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        mean = self.estimate(view)
        if self.than or self.whole:  # the first contrast: there must be a lead to be larger or to be kept
            return [estimate(self.lead(view, self.whole or self.series)), mean]
        return [replace(mean, mean=mean.mean + (self.slack or 0))] if view.comparable else [mean]

    @property
    def panels(self) -> int:
        return 1 + len(self.also)

    def remarks(self, view: ExperimentView) -> list[Reason]:
        if not self.also:
            return []
        panels, leads = self.panel_values(view), self.values(view)
        ahead = sum(lead > EPSILON for lead in leads)
        unit = self.unit(view.measure)
        keys = [view.key, *self.also]
        means = [
            f"{key} {unit.factor * (mean(series) - mean(other)):+z.1f} ({len(series)})"
            for key, (series, other) in zip(keys, panels, strict=True)
        ]
        values = {"panels": self.panels, "ahead": ahead, "pairs": len(leads)}
        return [make_reason(ReasonKind.POOLED, means=", ".join(means), **values)]

    def minimum_lead(self, view: ExperimentView) -> float:
        """Return the smallest lead that counts at the level of the baseline, in the unit of the measure."""
        if not view.measure.percent:
            return MINIMUM_LOSS_LEAD
        levels = [level for _, baseline in self.panel_values(view) for level in baseline]
        level = sum(levels) / len(levels)
        return MINIMUM_LEAD * level * (1 - level)

    def panel_values(self, view: ExperimentView) -> list[tuple[list[float], list[float]]]:
        """Return the values of the series and of the baseline, of the seeds that all experiments have, in each experiment."""
        seeds = self._common_seeds(view)
        views = self._views(view)
        return [(self._levels(each, self.series, seeds), self._levels(each, self.baseline, seeds)) for each in views]

    def _levels(self, view: ExperimentView, label: str, seeds: list[int]) -> list[float]:
        curves = view.curves(label)
        return [value.Quantity.seed_value(self, view, curves[seed], None) for seed in seeds]

    def _common_seeds(self, view: ExperimentView) -> list[int]:
        return common_seeds([each.curves(self.baseline) for each in self._views(view)])

    def _views(self, view: ExperimentView) -> list[ExperimentView]:
        return [view, *map(view.sibling, self.other_experiments)]
