"""The base classes of quantities."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

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
    """What a reported word such as "higher" means: the sign that all contrasts of the quantity must have."""

    sign: int = 1
    tested: bool = True  # against zero also where sizes are compared, so that the verdict has a p-value
    is_lead: bool = False  # whether a lead below `minimum_lead` counts as none


class Quantity(Frozen):
    """A number per seed, computed from one series of an experiment or from a series and its baseline."""

    kind: str
    series: str

    contrast: ClassVar[bool] = False  # whether its sign says which of two series is better
    from_curves: ClassVar[bool] = True  # whether the curves of a measure suffice to compute it

    def unit(self, measure: Measure) -> Unit:
        raise NotImplementedError

    def label(self, measure: Measure) -> str:
        """Return the label of an axis."""
        raise NotImplementedError

    def description(self, measure: Measure) -> str:
        """Return a sentence for the caption that completes the axis label; empty if the label suffices."""
        return ""

    @property
    def labels(self) -> list[str]:
        """The labels of the series that it is computed from: its series, then its baseline if it has one."""
        return [self.series, *filter(None, [getattr(self, "baseline", None)])]

    @property
    def study_name(self) -> str | None:
        """The study whose results it reads, `study` of its kind; None: the results of the experiment itself."""
        return getattr(self, "study", None)

    @property
    def other_experiments(self) -> list[str]:
        """The experiments that it needs in addition to the claim's."""
        return []

    @property
    def unshown_experiments(self) -> list[str]:
        """The `other_experiments` that only decide whether the quantity can be computed, and are not part of its value."""
        return []

    @property
    def expected(self) -> dict[str, Expected]:
        """The words that a claim may report in place of a number, with their meaning."""
        return {}

    @property
    def reports_number(self) -> bool:
        """Whether a claim may report a number."""
        return True

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        """Raise UserError unless the experiment has the series, and its study or measure."""
        if self.study_name:
            checker.check_study(ref.experiment, self.study_name, self.labels)
        else:
            checker.check_ref(ref, self.labels)

    def bounds(self, measure: Measure) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return -math.inf, math.inf

    def evaluate(self, view: ExperimentView) -> tuple[list[float], list[Reason]]:
        """Return one value per seed, in the order of seeds, or no values and the reasons why. Two series are paired by seed."""
        reasons = self.diverged(view) or self.missing(view) or self.missed_target(view)
        return ([], reasons) if reasons else (self.values(view), [])

    def values(self, view: ExperimentView) -> list[float]:
        """Return one value per seed, if `diverged`, `missing` and `missed_target` return no reasons."""
        raise NotImplementedError

    def diverged(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each diverged run among those that the quantity needs."""
        return [
            make_reason(ReasonKind.DIVERGED, series=label, run=run)
            for label in self.labels
            for run in view.results.diverged_runs(label)
        ]

    def missing(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each thing that the results lack: a measure, a round, a seed of one of two series."""
        return []

    def missed_target(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each group of seeds that do not reach the target."""
        return []

    def estimate(self, view: ExperimentView) -> Estimate:
        """Return the mean of `values` over seeds."""
        return estimate(self.values(view))

    @property
    def panels(self) -> int:
        """The number of experiments that the mean is taken over."""
        return 1

    def remarks(self, view: ExperimentView) -> list[Reason]:
        """Return remarks on the values that the verdict quotes."""
        return []

    def contrasts(self, view: ExperimentView) -> list[Estimate]:
        """Return the differences that must have the expected sign if a claim reports a word."""
        return [self.estimate(view)]

    def minimum_lead(self, view: ExperimentView) -> float:
        """Return the smallest lead that counts, for a quantity of which a claim may report a lead."""
        raise NotImplementedError

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        """Return how many rounds a run must have to test a claim with this reported value and tolerance."""
        return 0

    def target_margins(self, view: ExperimentView, label: str) -> list[float]:
        """Return per seed how much the best value of a series exceeds the target; a run reaches it if that is at least 0."""
        return []

    def arrivals_text(self, view: ExperimentView, label: str) -> str:
        """Return how many seeds of a series reach the target, e.g. "1 of 3 seeds (round 8)"; empty without a target."""
        return ""


class CurveQuantity(Quantity):
    """A quantity whose value for a seed follows from the curves of that seed."""

    def seed_value(self, view: ExperimentView, curve: Curve, baseline: Curve | None) -> float | Reason:
        """Return the value of one seed, or the reason why it has none. `baseline` is None without a baseline."""
        raise NotImplementedError

    def missing(self, view: ExperimentView) -> list[Reason]:
        curves = {label: view.curves(label) for label in self.labels}
        if unmeasured := [label for label, seeds in curves.items() if not seeds]:
            return [make_reason(ReasonKind.UNMEASURED, what=f"values of {view.display.measure}", series=unmeasured)]
        return unpaired_seeds(curves)

    def missed_target(self, view: ExperimentView) -> list[Reason]:
        groups: dict[str, Reason] = {}  # by sentence, so that seeds with the same reason share one
        for seed, reason in self._by_seed(view).items():
            if isinstance(reason, Reason):
                group = groups.get(str(reason), reason)
                groups[str(reason)] = replace(group, seeds=(*group.seeds, seed))
        return list(groups.values())

    def values(self, view: ExperimentView) -> list[float]:
        return [cast(float, value) for value in self._by_seed(view).values()]

    def _by_seed(self, view: ExperimentView) -> dict[int, float | Reason]:
        method, *baseline = (view.curves(label) for label in self.labels)
        return {seed: self.seed_value(view, method[seed], baseline[0][seed] if baseline else None) for seed in sorted(method)}


class CountedQuantity(Quantity):
    """A number of rounds or epochs; with a `baseline` the share of the baseline's number that the series saves."""

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
    """A quantity about the first round at a target. With `smooth` > 1, the mean of that many measured rounds must reach the
    target, so that one spike does not count."""

    target: NonNegative
    smooth: Count = 1

    def check(self, checker: ReferenceChecker, ref: ExperimentRef) -> None:
        super().check(checker, ref)
        checker.at("target").check_values(ref.resolved(checker.display_options).measure, [self.target])

    def missing(self, view: ExperimentView) -> list[Reason]:
        curves = [curve for label in self.labels for curve in view.curves(label).values()]
        return super().missing(view) or too_short(curves, self.smooth)

    def target_margins(self, view: ExperimentView, label: str) -> list[float]:
        return [view.sign * (view.best(curve, self.smooth) - self.target) for curve in view.curves(label).values()]

    def arrivals_text(self, view: ExperimentView, label: str) -> str:
        rounds = [self.arrival_round(view, curve) for _, curve in sorted(view.curves(label).items())]
        reached = [str(round) for round in rounds if round is not None]
        suffix = f" (round {', '.join(reached)})" if reached else ""
        return f"{len(reached)} of {count(len(rounds), 'seed')}{suffix}"

    def arrival_round(self, view: ExperimentView, curve: Curve) -> int | None:
        """Return the first round at the target; None if no round reaches it."""
        return view.rounds_to(curve, self.target, self.smooth)

    def missed_reason(self, view: ExperimentView, label: str, curve: Curve) -> Reason:
        target = format_target(view.measure, self.target)
        return make_reason(ReasonKind.NOT_REACHED, series=label, target=target, rounds=curve[-1][0])


def unpaired_seeds(seeds: Mapping[str, Collection[int]]) -> list[Reason]:
    """Return a reason for each seed that one series lacks and another has. `seeds`: series -> its seeds."""
    every_seed = sorted(set().union(*seeds.values()))
    pairs = [(seed, label) for seed in every_seed for label in seeds]
    return [make_reason(ReasonKind.UNPAIRED, seed=seed, series=label) for seed, label in pairs if seed not in seeds[label]]


def averaging_phrase(smooth: int) -> str:
    """Return whether values are single ones or means over `smooth` measured rounds, to continue a sentence."""
    return ", of single rounds" if smooth == 1 else f", of means over {smooth} measured rounds"


def too_short(curves: Iterable[Curve], smooth: int) -> list[Reason]:
    """Return a reason if a curve has fewer than `smooth` measured rounds."""
    measured = min((sum(round > 0 for round, _ in curve) for curve in curves), default=smooth)
    return [make_reason(ReasonKind.TOO_SHORT, rounds=count(measured, "round"), smooth=smooth)] if measured < smooth else []
