"""Quantities from the learning curves of runs: values, differences, and rounds to a target."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, cast

from pydantic import Field, model_validator

from fedrepro.config.types import Count, Fraction, NonNegative
from fedrepro.core.formatting import count
from fedrepro.core.metrics import Measure
from fedrepro.report.inference import common_seeds
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import (
    ROUNDS,
    Unit,
    difference_unit,
    difference_unit_name,
    display_factor,
    format_target,
    measure_unit,
)
from fedrepro.report.quantities.base import CountedQuantity, Expected, Quantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import (
    EPSILON,
    Curve,
    Estimate,
    at_round,
    estimate,
    mean,
    mean_last,
    smoothed,
)

# log odds; a smaller one counts as none, our choice: 1 point at 50 %, 0.36 at 90 %, 0.04 at 99 %
MINIMUM_LEAD = 0.04
MINIMUM_LOSS_LEAD = 0.001  # nats; the same for a loss


class CurveQuantity(Quantity):
    """A quantity whose value for a seed follows from the curves of that seed."""

    from_curves: ClassVar = True

    def found(self, view: ExperimentView, label: str) -> Mapping[int, Curve]:
        return view.curves(label)

    def found_name(self, view: ExperimentView) -> str:
        return f"values of {view.display.measure}"

    def too_short(self, view: ExperimentView, smooth: int) -> list[Reason]:
        """Return a reason if a curve has fewer than `smooth` measured rounds."""
        curves = [curve for label in self.labels for curve in view.curves(label).values()]
        measured = min((sum(round > 0 for round, _ in curve) for curve in curves), default=smooth)
        short = make_reason(ReasonKind.TOO_SHORT, rounds=count(measured, "round"), smooth=smooth)
        return [short] if measured < smooth else []


class Value(CurveQuantity):
    """The value of a series in the measure of the experiment, e.g. an accuracy: the mean of what
    was measured in the `last` rounds, with `measured` of the `last` measured rounds; or the value
    at a `round`, averaged over the `smooth` rounds that end there."""

    last: Count | None = None
    # left out of a registration if false, so that claims from before it existed stay registered
    measured: bool = Field(False, exclude_if=lambda value: not value)
    round: Count | None = None
    smooth: Count = 1

    @model_validator(mode="after")
    def _one_reduction(self) -> "Value":
        if (self.last is None) == (self.round is None):
            raise ValueError(f"a quantity of kind {self.kind} needs last or round (one of them)")
        if self.measured and not self.last:
            raise ValueError("measured: only with last")
        return self

    def unit(self, measure: Measure) -> Unit:
        return measure_unit(measure)

    def label(self, measure: Measure) -> str:
        return measure.axis

    def description(self, measure: Measure) -> str:
        if self.last:
            return (
                "After the last round."
                if self.last == 1
                else f"Mean of the last {self.last} measured rounds."
                if self.measured
                else f"Mean measured in the last {self.last} rounds."
            )
        window = f"Mean measured in the {self.smooth} rounds up to {self.round}."
        return f"Round {self.round}." if self.smooth == 1 else window

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (0, 1) if measure.percent else (0, math.inf)

    def _level(self, curve: Curve) -> float | None:
        """Return the value of one curve; None if it ends before `round`, or with `measured` has
        fewer than `last` rounds."""
        if self.measured:
            return smoothed(curve, self.last or 1).get(curve[-1][0])
        return (
            mean_last(curve, self.last)
            if self.last
            else at_round(curve, self.round or 0, self.smooth)
        )

    def found(self, view: ExperimentView, label: str) -> Mapping[int, float]:
        levels = {seed: self._level(curve) for seed, curve in sorted(view.curves(label).items())}
        return {seed: level for seed, level in levels.items() if level is not None}

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        if self.measured and (reasons := self.too_short(view, self.last or 1)):
            return reasons
        short = [
            label for label in self.labels if len(self.found(view, label)) < len(view.curves(label))
        ]
        no_round = [make_reason(ReasonKind.NO_ROUND, series=short, round=self.round)]
        return no_round if short else super().missing_in(view)

    def number(self, view: ExperimentView, *found: float) -> float | Reason:
        return found[0]

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return self.round or self.last or 0


class Difference(Value):
    """The lead of a series: its value minus the baseline's with the same seed, each the mean of the
    `last` rounds or the value at a `round`; without a `baseline` minus that of the same series in
    the experiment `than`. A claim may report a number or a word about the sign:

    - "higher" or "lower": the lead is positive or negative.
    - "no lower", with `slack`: the lead is above -`slack` at scale paper, positive at other scales.
    - "larger", with `than`, another experiment: the lead there is smaller, and the lead here is
      positive.
    - "most", with `whole`, another series: the lead is more than half of that series' lead, which
      is positive.

    With `also`, other experiments, the value is the mean over this experiment and those, as fixed
    panels of equal weight.
    """

    baseline: str | None = None
    slack: Fraction | None = None
    than: str | None = None
    whole: str | None = None
    also: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_another(self) -> "Difference":
        if not self.baseline and (
            not self.than or self.slack is not None or self.whole or self.also
        ):
            raise ValueError(
                "baseline: expected a series; or only `than`, another experiment with the same "
                "series"
            )
        return self

    @property
    def contrast(self) -> bool:
        return True

    @property
    def labels(self) -> list[str]:
        return [*super().labels, *filter(None, [self.whole])]

    @property
    def other_experiments(self) -> list[str]:
        return [*super().other_experiments, *self.also]

    @property
    def expected(self) -> dict[str, Expected]:
        if self.slack is not None:
            return {"no lower": Expected()}
        if self.reports_number:
            return {"higher": Expected(is_lead=True), "lower": Expected(sign=-1)}
        return {"larger" if self.than else "most": Expected()}

    @property
    def reports_number(self) -> bool:
        return self.slack is None and self.whole is None and not (self.than and self.baseline)

    def unit(self, measure: Measure) -> Unit:
        return difference_unit(measure)

    def label(self, measure: Measure) -> str:
        return (
            f"{measure.title} above {self.baseline or self.than} ({difference_unit_name(measure)})"
        )

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        measure = ref.resolved(checker.display_options).measure
        for name in self.other_experiments:
            key = "than" if name == self.than else "also"
            checker.at(key).check_ref(ExperimentRef(experiment=name, measure=measure), self.labels)

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if measure.percent else (-math.inf, math.inf)

    def missing(self, view: ExperimentView) -> list[Reason]:
        if self.also and self._common_seeds(view):  # panels need not have the same seeds
            return [reason for each in self.views(view) for reason in self.missing_in(each)]
        return super().missing(view)

    def leads(self, view: ExperimentView, series: str) -> dict[int, float]:
        """Return seed -> how much a series exceeds the baseline."""
        baseline = self.found(view, cast(str, self.baseline))
        return {seed: level - baseline[seed] for seed, level in self.found(view, series).items()}

    def number(self, view: ExperimentView, *found: float) -> float | Reason:
        lead, others = found[0] - found[1], found[2:]
        if self.than and self.baseline:
            return lead - (others[-2] - others[-1])
        return lead - (others[0] - found[1]) / 2 if self.whole else lead

    def samples(self, view: ExperimentView) -> dict[str, dict[int, float]]:
        if not self.also:
            return super().samples(view)
        panels = {each.key: self.leads(each, self.series) for each in self.views(view)}
        seeds = common_seeds([*panels.values()])
        return {key: {seed: leads[seed] for seed in seeds} for key, leads in panels.items()}

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        mean = self.estimate(view)
        if (
            not self.reports_number and self.slack is None
        ):  # the first contrast: there must be a lead to be larger or to be kept
            return [estimate(list(self.leads(view, self.whole or self.series).values())), mean]
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
        """Return the smallest lead that counts at the level of the baseline, in the unit of the
        measure."""
        if not view.measure.percent:
            return MINIMUM_LOSS_LEAD
        level = mean([level for _, baseline in self.panel_values(view) for level in baseline])
        return MINIMUM_LEAD * level * (1 - level)

    def panel_values(self, view: ExperimentView) -> list[tuple[list[float], list[float]]]:
        """Return the values of the series and of the baseline, of the seeds that all experiments
        have, in each experiment."""
        if not self.baseline:
            here, there = (self.found(each, self.series) for each in self.views(view))
            both = common_seeds([here, there])
            return [([here[seed] for seed in both], [there[seed] for seed in both])]
        seeds = self._common_seeds(view)
        pairs = [
            (self.found(each, self.series), self.found(each, self.baseline))
            for each in self.views(view)
        ]
        return [
            ([ours[seed] for seed in seeds], [other[seed] for seed in seeds])
            for ours, other in pairs
        ]

    def _common_seeds(self, view: ExperimentView) -> list[int]:
        return common_seeds([each.curves(cast(str, self.baseline)) for each in self.views(view)])


class TargetQuantity(CurveQuantity):
    """A quantity about the first round at a target. With `smooth` > 1, the mean of that many
    measured rounds must reach the target, so that one spike does not count."""

    target: NonNegative
    smooth: Count = 1

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        checker.at("target").check_values(
            ref.resolved(checker.display_options).measure, [self.target]
        )

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        return super().missing_in(view) or self.too_short(view, self.smooth)

    def target_margins(self, view: ExperimentView, label: str) -> list[float]:
        return [
            view.sign * (view.best(curve, self.smooth) - self.target)
            for curve in view.curves(label).values()
        ]

    def arrivals_text(self, view: ExperimentView, label: str) -> str:
        rounds = [
            self.arrival_round(view, curve) for _, curve in sorted(view.curves(label).items())
        ]
        reached = [round for round in rounds if round is not None]
        text = f"{len(reached)} of {count(len(rounds), 'seed')}"
        if not reached:
            return text
        first, last = min(reached), max(reached)
        return f"{text} ({f'round {first}' if first == last else f'rounds {first} to {last}'})"

    def arrival_round(self, view: ExperimentView, curve: Curve) -> int | None:
        """Return the first round at the target; None if no round reaches it."""
        return view.rounds_to(curve, self.target, self.smooth)


class Best(TargetQuantity):
    """The best value of a series in all rounds or up to `round`. A claim may report that it "never"
    reaches `target`."""

    round: Count | None = None

    @property
    def expected(self) -> dict[str, Expected]:
        return {"never": Expected(sign=-1)}

    def unit(self, measure: Measure) -> Unit:
        return measure_unit(measure)

    def label(self, measure: Measure) -> str:
        return f"best {measure.axis}"

    def number(self, view: ExperimentView, *found: Curve) -> float | Reason:
        return view.best(self._counted(found[0]), self.smooth)

    def arrival_round(self, view: ExperimentView, curve: Curve) -> int | None:
        return super().arrival_round(view, self._counted(curve))

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return self.round or 0

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        return [estimate([view.sign * (value - self.target) for value in self.values(view)])]

    def _counted(self, curve: Curve) -> Curve:
        return [point for point in curve if point[0] <= (self.round or point[0])]


class RoundsTo(CountedQuantity, TargetQuantity):
    """The rounds that a series needs to reach a target. With a `baseline` the saving, 1 -
    rounds(series) / rounds(baseline). With `than`, another experiment, this saving minus the saving
    there, to the target `than_target`; a claim may report that the saving here is "larger"."""

    than: str | None = None
    than_target: NonNegative | None = None  # None: the same target
    counted: ClassVar = ROUNDS

    @property
    def expected(self) -> dict[str, Expected]:
        return {"larger": Expected()} if self.than and self.baseline else {}

    @property
    def reports_number(self) -> bool:
        return self.than is None

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        if self.than:
            self._there.check(checker.at("than"), ref.model_copy(update={"experiment": self.than}))

    @property
    def _there(self) -> "RoundsTo":
        """The same quantity for the other experiment."""
        target = self.target if self.than_target is None else self.than_target
        return self.model_copy(update={"than": None, "target": target})

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-math.inf, math.inf) if self.than else super().bounds(measure)

    def label(self, measure: Measure) -> str:
        return (
            f"rounds saved against {self.baseline} (%)" if self.baseline else "rounds to the target"
        )

    def description(self, measure: Measure) -> str:
        return (
            ""
            if self.baseline
            else f"The first round at the target{averaging_phrase(self.smooth)}."
        )

    def number(self, view: ExperimentView, *found: Curve) -> float | Reason:
        found, there = found[: len(self.labels)], found[len(self.labels) :]
        rounds: list[int] = []
        for label, curve in zip(self.labels, found, strict=True):
            if (reached := self.arrival_round(view, curve)) is None:
                missed = {
                    "series": label,
                    "target": format_target(view.measure, self.target),
                    "rounds": curve[-1][0],
                }
                other = {"other": self.series, "reached": rounds[0]} if rounds else {}
                return make_reason(
                    ReasonKind.ONE_REACHES if rounds else ReasonKind.NOT_REACHED, **missed, **other
                )
            rounds.append(reached)
        value = 1 - rounds[0] / rounds[1] if self.baseline else float(rounds[0])
        other = self._there.number(view, *there) if there else 0.0
        return other if isinstance(other, Reason) else value - other

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        return 0 if self.baseline else math.ceil(float(reported) + tolerance)


class RoundsToPlateau(CurveQuantity):
    """The rounds until a series has converged: the first round whose value, averaged over `smooth`
    measured rounds, is at most `within` worse than the best one. A claim may report that it is
    "later" than round `after`."""

    within: NonNegative
    smooth: Count = 1
    after: Count | None = None

    @property
    def expected(self) -> dict[str, Expected]:
        return {} if self.after is None else {"later": Expected()}

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        return [estimate([value - (self.after or 0) for value in self.values(view)])]

    def unit(self, measure: Measure) -> Unit:
        return ROUNDS

    def label(self, measure: Measure) -> str:
        return "rounds until it has converged"

    def description(self, measure: Measure) -> str:
        near = f"{display_factor(measure) * self.within:g} {difference_unit_name(measure)}"
        return (
            f"The first round that comes within {near} of the best{averaging_phrase(self.smooth)}."
        )

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        return super().missing_in(view) or self.too_short(view, self.smooth)

    def number(self, view: ExperimentView, *found: Curve) -> float | Reason:
        plateau = view.best(found[0], self.smooth) - view.sign * self.within
        round = view.rounds_to(found[0], plateau, self.smooth)
        assert round is not None  # the best value is among them
        return float(round)


def averaging_phrase(smooth: int) -> str:
    """Return whether values are single ones or means over `smooth` measured rounds, to continue a
    sentence."""
    return ", of single rounds" if smooth == 1 else f", of means over {smooth} measured rounds"
