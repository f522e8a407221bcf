"""The base class of quantities, which pairs the runs of series and experiments by seed."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from fedrepro.config.types import Frozen
from fedrepro.core.metrics import Measure
from fedrepro.report.inference import common_seeds, over_panels
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import PERCENT, Unit
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import Estimate


@dataclass(frozen=True)
class Expected:
    """What a reported word such as "higher" means: the sign that all contrasts of the quantity must
    have."""

    sign: int = 1
    is_lead: bool = False  # whether a lead below `minimum_lead` counts as none


class Quantity(Frozen):
    """A number per seed, computed from one series of an experiment or from several, whose runs are
    paired by seed.

    A kind says what it reads of each run (`found`) and which number follows from the paired runs
    (`number`).
    """

    kind: str
    series: str

    from_curves: ClassVar[bool] = False  # whether the curves of a measure suffice to compute it

    def unit(self, measure: Measure) -> Unit:
        raise NotImplementedError

    def label(self, measure: Measure) -> str:
        """Return the label of an axis."""
        raise NotImplementedError

    def description(self, measure: Measure) -> str:
        """Return a sentence for the caption that completes the axis label; empty if the label
        suffices."""
        return ""

    def found(self, view: ExperimentView, label: str) -> Mapping[int, Any]:
        """Return seed -> what the number is computed from, of each run of a series."""
        raise NotImplementedError

    def found_name(self, view: ExperimentView) -> str:
        """Return the name of what `found` returns, for the reason if there is nothing."""
        raise NotImplementedError

    def number(self, view: ExperimentView, *found: Any) -> float | Reason:
        """Return the value of one seed, or the reason why it has none. `found`: that of each of the
        `labels` in this experiment, then in each other one."""
        raise NotImplementedError

    @property
    def contrast(self) -> bool:
        """Whether its sign says which of two series is better."""
        return getattr(self, "baseline", None) is not None

    @property
    def labels(self) -> list[str]:
        """The labels of the series that it is computed from: its series, then its baseline if it
        has one."""
        return [self.series, *filter(None, [getattr(self, "baseline", None)])]

    @property
    def study_name(self) -> str | None:
        """The study whose results it reads, `study` of its kind; None: the results of the
        experiment itself."""
        return getattr(self, "study", None)

    @property
    def other_experiments(self) -> list[str]:
        """The experiments that it needs in addition to the claim's: by default `than`, if it has
        one."""
        than = getattr(self, "than", None)
        return [than] if isinstance(than, str) else []

    @property
    def unshown_experiments(self) -> list[str]:
        """The `other_experiments` that only decide whether the quantity can be computed, and are
        not part of its value."""
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
        """Return one value per seed, in the order of seeds, or no values and the reasons why."""
        reasons = self.diverged(view) or self.missing(view) or self.missed_target(view)
        return ([], reasons) if reasons else (self.values(view), [])

    def views(self, view: ExperimentView) -> list[ExperimentView]:
        """Return the experiments that the value is computed from, the claim's first."""
        return [
            view,
            *(
                view.sibling(name)
                for name in self.other_experiments
                if name not in self.unshown_experiments
            ),
        ]

    def by_seed(self, view: ExperimentView) -> dict[int, float | Reason]:
        """Return seed -> the value, or the reason why it has none."""
        found = [self.found(each, label) for each in self.views(view) for label in self.labels]
        return {
            seed: self.number(view, *(runs[seed] for runs in found)) for seed in common_seeds(found)
        }

    def samples(self, view: ExperimentView) -> dict[str, dict[int, float]]:
        """Return panel -> seed -> value, if `diverged`, `missing` and `missed_target` return no
        reasons. All panels have the same seeds. A panel is named after its experiment."""
        return {view.key: cast(dict[int, float], self.by_seed(view))}

    def values(self, view: ExperimentView) -> list[float]:
        """Return the `samples` of all panels, each in the order of seeds."""
        return [value for panel in self.samples(view).values() for value in panel.values()]

    def diverged(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each diverged run among those that the quantity needs."""
        return [
            make_reason(ReasonKind.DIVERGED, series=label, run=run)
            for each in self.views(view)
            for label in self.labels
            for run in each.results.diverged_runs(label)
        ]

    def missing(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each thing that the results lack: a measure, a round, a seed of one
        of two series."""
        views = self.views(view)
        reasons = [reason for each in views for reason in self.missing_in(each)]
        return reasons or unpaired_seeds(
            {f"{self.series} in {each.key}": self.found(each, self.series) for each in views}
        )

    def missing_in(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each thing that the results of one experiment lack."""
        found = {label: self.found(view, label) for label in self.labels}
        if unmeasured := [label for label, runs in found.items() if not runs]:
            return [
                make_reason(ReasonKind.UNMEASURED, what=self.found_name(view), series=unmeasured)
            ]
        return unpaired_seeds(found)

    def missed_target(self, view: ExperimentView) -> list[Reason]:
        """Return a reason for each group of seeds that do not reach the target."""
        groups: dict[str, Reason] = {}  # by sentence, so that seeds with the same reason share one
        for seed, reason in self.by_seed(view).items():
            if isinstance(reason, Reason):
                group = groups.get(str(reason), reason)
                groups[str(reason)] = replace(group, seeds=(*group.seeds, seed))
        return list(groups.values())

    def estimate(self, view: ExperimentView) -> Estimate:
        """Return the mean over seeds, each with its mean over the panels."""
        return over_panels([*self.samples(view).values()])

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
        """Return the smallest lead that counts, for a quantity of which a claim may report a
        lead."""
        raise NotImplementedError

    def rounds_needed(self, reported: float | str, tolerance: float) -> int:
        """Return how many rounds a run must have to test a claim with this reported value and
        tolerance."""
        return 0

    def target_margins(self, view: ExperimentView, label: str) -> list[float]:
        """Return per seed how much the best value of a series exceeds the target; a run reaches it
        if that is at least 0."""
        return []

    def arrivals_text(self, view: ExperimentView, label: str) -> str:
        """Return how many seeds of a series reach the target, e.g. "1 of 3 seeds (round 8)"; empty
        without a target."""
        return ""


class CountedQuantity(Quantity):
    """A number of rounds or epochs; with a `baseline` the share of the baseline's number that the
    series saves."""

    baseline: str | None = None

    counted: ClassVar[Unit]

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-math.inf, 1) if self.baseline else (-math.inf, math.inf)

    def unit(self, measure: Measure) -> Unit:
        return PERCENT if self.baseline else self.counted


def unpaired_seeds(found: Mapping[str, Collection[int]]) -> list[Reason]:
    """Return a reason for each seed that one series lacks and another has. `found`: series -> its
    seeds."""
    pairs = [(seed, label) for seed in sorted(set().union(*found.values())) for label in found]
    return [
        make_reason(ReasonKind.UNPAIRED, seed=seed, series=label)
        for seed, label in pairs
        if seed not in found[label]
    ]
