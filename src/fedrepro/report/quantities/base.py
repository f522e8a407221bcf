"""What every kind of quantity has: a number for each seed, or the reasons why there is none, and how it is printed."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from fedrepro.config.types import Count, Frozen, NonNegative
from fedrepro.core.formatting import count
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import PERCENT, Unit, format_target
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import Curve, Estimate, estimate


@dataclass(frozen=True)
class Expected:
    """What a claim that reports a word says of the contrasts of its quantity: on which side of zero they all lie."""

    sign: int = 1
    tested: bool = True  # against zero, so that there is a p
    is_lead: bool = False  # so that one below `minimum_lead` counts as none


class Quantity(Frozen):
    """A number of one series, or of one beside its baseline."""

    kind: str
    series: str

    contrast: ClassVar[bool] = False  # whether its sign says which of two series is better
    from_curves: ClassVar[bool] = True  # whether it follows from curves
    study: ClassVar[str | None] = None  # whose gathered results it reads; None: the experiment's own

    def unit(self, measure: Measure) -> Unit:
        raise NotImplementedError

    def label(self, measure: Measure) -> str:
        """What an axis is called."""
        raise NotImplementedError

    def description(self, measure: Measure) -> str:
        """A sentence on the number, where the axis does not say it all."""
        return ""

    @property
    def labels(self) -> list[str]:
        """The series that it needs: its own, and the baseline where it has one."""
        return [self.series, *filter(None, [getattr(self, "baseline", None)])]

    @property
    def other_experiments(self) -> list[str]:
        """The experiments whose results it needs beside those of the claim's own."""
        return []

    @property
    def unshown_experiments(self) -> list[str]:
        """Those of `others` that say only whether there is anything to compare."""
        return []

    @property
    def expected(self) -> dict[str, Expected]:
        """What a claim may report in place of a number."""
        return {}

    @property
    def reports_number(self) -> bool:
        """Whether a claim may report a number."""
        return True

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        """That series, study and measure exist."""
        if self.study:
            checker.check_study(ref.experiment, self.study, self.labels)
        else:
            checker.check_ref(ref, self.labels)

    def bounds(self, measure: Measure) -> tuple[float, float]:
        """Between which numbers it lies."""
        return -math.inf, math.inf

    def evaluate(self, panel: ExperimentView) -> tuple[list[float], list[Reason]]:
        """The value of each seed, of two series always of the same seed; without values the reasons."""
        reasons = self.diverged(panel) or self.missing(panel) or self.missed_target(panel)
        return ([], reasons) if reasons else (self.values(panel), [])

    def values(self, panel: ExperimentView) -> list[float]:
        """The same where no reason speaks against it."""
        raise NotImplementedError

    def diverged(self, panel: ExperimentView) -> list[Reason]:
        """Which of the runs that it needs diverged."""
        return [
            make_reason(ReasonKind.DIVERGED, series=label, run=run)
            for label in self.labels
            for run in panel.results.diverged_runs(label)
        ]

    def missing(self, panel: ExperimentView) -> list[Reason]:
        """What our results lack for it: a measure, a round, the other series' run of a seed."""
        return []

    def missed_target(self, panel: ExperimentView) -> list[Reason]:
        """Which seeds do not get to the target."""
        return []

    def estimate(self, panel: ExperimentView) -> Estimate:
        """Estimate the mean over seeds of `values`."""
        return estimate(self.values(panel))

    @property
    def panels(self) -> int:
        """Return over how many experiments the mean is taken."""
        return 1

    def evidence(self, panel: ExperimentView) -> list[Reason]:
        """Return what else supports a verdict on the values."""
        return []

    def contrasts(self, panel: ExperimentView) -> list[Estimate]:
        """Estimate the differences that must all lie on one side of zero where a claim reports a word."""
        return [self.estimate(panel)]

    def minimum_lead(self, panel: ExperimentView) -> float:
        """Return the smallest lead that counts, of a quantity that expects one."""
        raise NotImplementedError

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        """Rounds that a run must have to say anything of a claim."""
        return 0

    def target_margins(self, panel: ExperimentView, label: str) -> list[float]:
        """By how much the best value of each seed's run is better than the target; from 0 on it arrives."""
        return []

    def arrivals_text(self, panel: ExperimentView, label: str) -> str:
        """How many get to the target."""
        return ""


class CurveQuantity(Quantity):
    """A quantity whose value for a seed follows from that seed's curves."""

    def seed_value(self, panel: ExperimentView, curve: Curve, baseline: Curve | None) -> float | Reason:
        """For one seed, or why there is none."""
        raise NotImplementedError

    def missing(self, panel: ExperimentView) -> list[Reason]:
        curves = {label: panel.curves(label) for label in self.labels}
        if unmeasured := [label for label, seeds in curves.items() if not seeds]:
            return [make_reason(ReasonKind.UNMEASURED, what=f"values of {panel.display.measure}", series=unmeasured)]
        return unpaired_seeds(curves)

    def missed_target(self, panel: ExperimentView) -> list[Reason]:
        seeds: dict[str, list[int]] = {}
        reasons = {seed: value for seed, value in self._by_seed(panel).items() if isinstance(value, Reason)}
        for seed, found in reasons.items():
            seeds.setdefault(str(found), []).append(seed)
        return [replace(reasons[alike[0]], seeds=tuple(alike)) for alike in seeds.values()]

    def values(self, panel: ExperimentView) -> list[float]:
        return list(self._by_seed(panel).values())

    def _by_seed(self, panel: ExperimentView) -> dict[int, float | Reason]:
        method, *baseline = (panel.curves(label) for label in self.labels)
        return {seed: self.seed_value(panel, method[seed], baseline[0][seed] if baseline else None) for seed in sorted(method)}


class CountedQuantity(Quantity):
    """A number of rounds or epochs; with a `baseline` the share of its number that is saved."""

    baseline: str | None = None

    counted: ClassVar[Unit]

    @property
    def contrast(self) -> bool:
        return self.baseline is not None

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-math.inf, 1) if self.baseline else super().bounds(measure)

    def unit(self, measure: Measure) -> Unit:
        return PERCENT if self.baseline else self.counted


class TargetQuantity(CurveQuantity):
    """A quantity about the rounds to a target: `smooth` > 1 asks for the mean of so many rounds, so that one spike does not
    count."""

    target: NonNegative
    smooth: Count = 1

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        checker.at("target").check_values(ref.resolved(checker.display_options).measure, [self.target])

    def missing(self, panel: ExperimentView) -> list[Reason]:
        curves = [curve for label in self.labels for curve in panel.curves(label).values()]
        return super().missing(panel) or too_short(curves, self.smooth)

    def target_margins(self, panel: ExperimentView, label: str) -> list[float]:
        return [panel.sign * (panel.best(curve, self.smooth) - self.target) for curve in panel.curves(label).values()]

    def arrivals_text(self, panel: ExperimentView, label: str) -> str:
        rounds = [self.arrival_round(panel, curve) for _, curve in sorted(panel.curves(label).items())]
        there = [str(round) for round in rounds if round is not None]
        when = f" (round {', '.join(there)})" if there else ""
        return f"{len(there)} of {count(len(rounds), 'seed')}{when}"

    def arrival_round(self, panel: ExperimentView, curve: Curve) -> int | None:
        return panel.rounds_to(curve, self.target, self.smooth)

    def missed_reason(self, panel: ExperimentView, label: str, curve: Curve) -> Reason:
        target = format_target(panel.measure, self.target)
        return make_reason(ReasonKind.NOT_REACHED, series=label, target=target, rounds=curve[-1][0])


def unpaired_seeds(seeds: dict[str, Collection[int]]) -> list[Reason]:
    """Which series lacks a seed that another one has."""
    every = sorted({seed for own in seeds.values() for seed in own})
    lacking = [(seed, label) for seed in every for label, own in seeds.items() if seed not in own]
    return [make_reason(ReasonKind.UNPAIRED, seed=seed, series=label) for seed, label in lacking]


def averaging_phrase(smooth: int) -> str:
    """Say whether values are single ones, or means over so many of the measured rounds."""
    return ", of single rounds" if smooth == 1 else f", of means over {smooth} measured rounds"


def too_short(curves: Iterable[Curve], smooth: int) -> list[Reason]:
    """That one of them has no mean of so many rounds."""
    measured = min((sum(round > 0 for round, _ in curve) for curve in curves), default=smooth)
    return [make_reason(ReasonKind.TOO_SHORT, rounds=count(measured, "round"), smooth=smooth)] if measured < smooth else []
