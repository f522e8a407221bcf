"""How far series lie above one of them, over rounds: the mean of the differences seed by seed, with a band of one standard
deviation. Where curves lie on each other, as those of one rate do, this shows what they differ by."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fedrepro.report.figures import curves
from fedrepro.report.inputs.panel import Evidence, Panel
from fedrepro.report.inputs.references import Known
from fedrepro.report.numbers import between
from fedrepro.report.statistics import Curve
from fedrepro.runs.reasons import Reason


class Figure(curves.Figure):
    """As `curves`; `baseline` is the series that the others are held against."""

    baseline: str
    shows: ClassVar = "how far methods lie above one of them over rounds of communication, one line per method"

    def check(self, known: Known) -> None:
        super().check(known)
        known.at("baseline").experiment(self.experiment, [self.baseline])
        if self.shown:
            known.at("shown").refuse("the axis is as long as the differences are")

    def skipped(self, evidence: Evidence) -> Reason | None:
        return super().skipped(evidence) or evidence.panel(self).results.absent([self.baseline])

    def _labels(self, panel: Panel) -> list[str]:
        return [label for label in panel.results.labels if label != self.baseline]

    def _seeds(self, panel: Panel, label: str) -> dict[int, Curve]:
        """Of the seeds that both series have."""
        own, other = panel.curves(label), panel.curves(self.baseline)
        return {seed: _above(curve, other[seed]) for seed, curve in own.items() if seed in other}

    def _keys(self, panel: Panel) -> list[str]:
        """None where the paper has none of the baseline."""
        other = panel.shown.reported.get(self.baseline)
        return [key for key in super()._keys(panel) if other and key != other]

    def _theirs(self, panel: Panel, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """Of the rounds that both curves have."""
        other = curves[panel.shown.reported[self.baseline]]
        return {key: _above(curve, other) for key, curve in super()._theirs(panel, curves).items()}

    def _target(self, panel: Panel) -> None:
        return None

    def _frame(self, axes: Any, panel: Panel) -> None:
        super()._frame(axes, panel)
        axes.autoscale(axis="y")
        axes.axhline(0, color="0.3", linewidth=0.8, zorder=1.2)
        axes.set_ylabel(f"{panel.measure.label or panel.measure.title} minus {self.baseline}'s ({between(panel.measure)})")

    def told(self, evidence: Evidence) -> list[str]:
        return [f"The difference from {self.baseline}, seed by seed.", *super().told(evidence)]


def _above(curve: Curve, other: Curve) -> Curve:
    at = dict(other)
    return [(round, value - at[round]) for round, value in curve if round in at]
