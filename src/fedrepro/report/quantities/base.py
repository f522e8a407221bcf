"""What every kind of cell has, and the two shapes that most of them take."""

import math
from collections.abc import Collection, Iterable
from typing import ClassVar

from fedrepro.config.types import Count, Frozen, NonNegative
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel, Ref
from fedrepro.report.inputs.references import Known
from fedrepro.report.numbers import amount, unit
from fedrepro.report.statistics import Curve, Estimate

ROUNDS = "a number of rounds"  # what such a cell is


class Cell(Frozen):
    """A number of one series, or of one beside its baseline."""

    kind: str
    series: str

    plotted: ClassVar = True  # whether curves tell it
    study: ClassVar[str | None] = None  # whose gathered results it reads; None: the experiment's own
    word: ClassVar[str | None] = None  # what a claim reports instead of a number
    absolute: ClassVar[str | None] = None  # what it is, where it means something at the paper's own scale only
    holds: ClassVar[int] = -1  # with a word: on which side its margins lie where the word is true
    signed: ClassVar[bool] = False  # whether its sign says who is better

    @property
    def labels(self) -> list[str]:
        """The series that it needs: its own, and the baseline where it has one."""
        return [self.series, *filter(None, [getattr(self, "baseline", None)])]

    def about(self, measure: Measure) -> str:
        """A sentence on what its number is, where an axis does not say it all."""
        return ""

    @property
    def others(self) -> list[str]:
        """The experiments whose results it needs beside those of the claim's own."""
        return []

    @property
    def unseen(self) -> list[str]:
        """Those of `others` that say only whether there is anything to compare."""
        return []

    def check(self, known: Known, ref: Ref) -> None:
        """That series, study and measure exist."""
        if self.study:
            known.study(ref.experiment, self.study, self.labels)
        else:
            known.ref(ref, self.labels)

    def limits(self, measure: Measure) -> tuple[float, float]:
        """Between which numbers it lies."""
        return -math.inf, math.inf

    def lost(self, panel: Panel) -> str:
        """Which of the runs that it needs diverged."""
        return "; ".join(f"{label}, {text}" for label in self.labels for text in panel.results.diverged(label))

    def absent(self, panel: Panel) -> str:
        """What our results lack for it (empty if nothing): a measure, a round, the other series' run of a seed."""
        return ""

    def found(self, panel: Panel) -> tuple[list[float], str]:
        """The value of each seed, of two series always of the same seed, and what keeps it from being one (empty if nothing
        does)."""
        problem = self.lost(panel) or self.absent(panel)
        return ([], problem) if problem else self.values(panel)

    def values(self, panel: Panel) -> tuple[list[float], str]:
        """The same where nothing is lost or absent."""
        raise NotImplementedError

    def problems(self, panel: Panel) -> dict[int, str]:
        """Seed -> why it has no value, where nothing is lost or absent and a seed alone can lack one."""
        return {}

    def needs(self, reported: float | str, tolerance: float) -> int:
        """Rounds that a run must have to say anything of a claim."""
        return 0

    def margins(self, panel: Panel, label: str) -> list[float]:
        """Of a cell about a target: by how much the best value of each seed's run is better than it; from 0 on it arrives."""
        return []

    def required(self, panel: Panel) -> list[list[float]]:
        """With a word: the margins, each seed by seed, that all have to lie on its side."""
        return [self.margins(panel, self.series)]

    def arrived(self, panel: Panel) -> str:
        """Of a cell about a target: who gets there and when, which is told where there is no number."""
        return ""

    def against(self, measure: Measure) -> str:
        """With a word: what is held against what."""
        raise NotImplementedError

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        """With a word: what it means that its margins lie below zero, around it, above it."""
        raise NotImplementedError

    def nothing(self, margins: Estimate, measure: Measure) -> str:
        """With a word, of margins around zero: that nothing which would count lies between them; empty otherwise."""
        return ""

    def at(self) -> float | None:
        """The target that it is about."""
        return getattr(self, "target", None)

    def digits(self, reported: float | str, measure: Measure) -> int:
        """Decimals: of points two where the reported number has two, else one."""
        return 1 if isinstance(reported, str) or math.isclose(round(100 * reported, 1), 100 * reported) else 2

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        """A value with its unit behind it."""
        raise NotImplementedError

    def told(self, found: Estimate, measure: Measure, digits: int = 1) -> str:
        """A mean over seeds with its 95 % interval and their number, or that there is one seed only."""
        seeds = "1 seed" if found.half_width is None else f"n = {found.n}"
        return f"{self.interval(found, measure, digits)} ({seeds})"

    def interval(self, found: Estimate, measure: Measure, digits: int = 1) -> str:
        """The mean with its 95 % interval, where there is one."""
        text = self.show(found.mean, measure, digits=digits)
        if found.half_width is None:
            return text
        number = text.rsplit(" ", 1)[0]  # the unit stands once, behind the interval
        return f"{number} ± {self.show(found.half_width, measure, False, digits)}"

    def gap(self, value: float, measure: Measure, digits: int) -> str:
        """A distance between two values."""
        return self.show(value, measure, False, digits)

    def axis(self, measure: Measure) -> str:
        """The axis of bars that show it."""
        raise NotImplementedError

    def drawn(self, value: float, measure: Measure) -> float:
        """A value on that axis."""
        return value


class OfCurves(Cell):
    """A cell whose value for a seed follows from that seed's curves."""

    def value(self, panel: Panel, curve: Curve, baseline: Curve | None) -> float | str:
        """For one seed, or why there is none."""
        raise NotImplementedError

    def absent(self, panel: Panel) -> str:
        curves = {label: panel.curves(label) for label in self.labels}
        if unmeasured := [label for label, seeds in curves.items() if not seeds]:
            return f"no values of {panel.shown.measure} for {' and '.join(unmeasured)}"
        return unpaired(curves)

    def values(self, panel: Panel) -> tuple[list[float], str]:
        problem = _told(self.problems(panel))
        return ([], problem) if problem else (list(self._by_seed(panel).values()), "")

    def problems(self, panel: Panel) -> dict[int, str]:
        return {seed: value for seed, value in self._by_seed(panel).items() if isinstance(value, str)}

    def _by_seed(self, panel: Panel) -> dict[int, float | str]:
        method, *baseline = (panel.curves(label) for label in self.labels)
        return {seed: self.value(panel, method[seed], baseline[0][seed] if baseline else None) for seed in sorted(method)}


class Saving:
    """Of a cell that is a share saved of the baseline's number."""

    signed: ClassVar = True
    absolute: ClassVar = None

    def limits(self, measure: Measure) -> tuple[float, float]:
        return -math.inf, 1

    def show(self, value: float, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return fraction(value)

    def gap(self, value: float, measure: Measure, digits: int) -> str:
        return apart(value)

    def drawn(self, value: float, measure: Measure) -> float:
        return 100 * value


class ToTarget(OfCurves):
    """A cell about the rounds to a target: `smooth` > 1 asks for the mean of so many rounds, so that one spike does not
    count."""

    target: NonNegative
    smooth: Count = 1

    def check(self, known: Known, ref: Ref) -> None:
        super().check(known, ref)
        known.at("target").values(ref.resolved(known.shown).measure, [self.target])

    def absent(self, panel: Panel) -> str:
        curves = [curve for label in self.labels for curve in self.curves(panel, label).values()]
        return super().absent(panel) or too_few(curves, self.smooth)

    def curves(self, panel: Panel, label: str) -> dict[int, Curve]:
        """Seed -> the part of the curve in which the target counts."""
        return panel.curves(label)

    def margins(self, panel: Panel, label: str) -> list[float]:
        found = [panel.best(curve, self.smooth) for curve in self.curves(panel, label).values()]
        return [panel.sign * (value - self.target) for value in found]

    def arrived(self, panel: Panel) -> str:
        if self.lost(panel) or self.absent(panel):
            return ""
        told = {label: self._reached(panel, label) for label in self.labels}
        if len(set(told.values())) == 1:
            return f"{'both ' * (len(told) > 1)}{told[self.series]}"
        return "; ".join(f"{label}: {text}" for label, text in told.items())

    def reached(self, panel: Panel, label: str) -> list[int | None]:
        """When each seed's run is at the target; None where it never is."""
        curves = sorted(self.curves(panel, label).items())
        return [panel.rounds_to(curve, self.target, self.smooth) for _, curve in curves]

    def _reached(self, panel: Panel, label: str) -> str:
        reached = self.reached(panel, label)
        never = f"not within {max(curve[-1][0] for curve in self.curves(panel, label).values())} rounds"
        there = [str(round) for round in reached if round is not None]
        when = f"round{'s' if len(there) > 1 else ''} {', '.join(there)}"
        if len(there) == len(reached):
            return when
        return f"{when} in {len(there)} of {len(reached)} seeds, else {never}" if there else never

    def missed(self, panel: Panel, label: str, curve: Curve) -> str:
        return f"{label} does not reach {amount(panel.measure, self.target)} within {curve[-1][0]} rounds"


def _told(problems: dict[int, str]) -> str:
    """What keeps seeds from a number, each reason once."""
    seeds: dict[str, list[str]] = {}
    for seed, problem in problems.items():
        seeds.setdefault(problem, []).append(str(seed))
    return "; ".join(f"seed{'s' * (len(of) > 1)} {', '.join(of)}: {problem}" for problem, of in seeds.items())


def unpaired(seeds: dict[str, Collection[int]]) -> str:
    """Which series lacks a seed that another one has."""
    every = sorted({seed for own in seeds.values() for seed in own})
    lacking = [(seed, label) for seed in every for label, own in seeds.items() if seed not in own]
    return "; ".join(f"seed {seed}: no run of {label} with this seed" for seed, label in lacking)


def averaged(smooth: int) -> str:
    """What is to be said of values that are single ones, or means over so many of the measured rounds."""
    return ", of single rounds" if smooth == 1 else f", of means over {smooth} measured rounds"


def too_few(curves: Iterable[Curve], smooth: int) -> str:
    """That one of them has no mean of so many rounds."""
    measured = min((sum(round > 0 for round, _ in curve) for curve in curves), default=smooth)
    return f"a run that was measured in {counted(measured, 'round')} has no mean of {smooth}" if measured < smooth else ""


def decimals(value: float) -> int:
    """Of points: as many as show a tolerance in full, three at most."""
    return next((digits for digits in (1, 2) if math.isclose(round(100 * value, digits), 100 * value)), 3)


def fraction(value: float) -> str:
    return f"{100 * value:z.1f} %"


def apart(value: float) -> str:
    """Of two fractions."""
    return f"{100 * value:z.1f} points"


def counted(value: float, unit: str) -> str:
    """7 rounds, 1 round, 7.5 rounds."""
    number = f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"
    return f"{number} {unit if number == '1' else unit + 's'}"


def level(value: float, measure: Measure, digits: int) -> str:
    """A value of the measure itself; a loss with one digit more than a percentage."""
    return f"{100 * value:.{digits}f} %" if measure.percent else f"{value:.{digits + 1}f} {unit(measure)}"


def points(value: float, measure: Measure, signed: bool, digits: int) -> str:
    """A difference of two values of the measure."""
    sign = "+" if signed else ""
    if measure.percent:
        return f"{100 * value:{sign}z.{digits}f} points"
    return f"{value:{sign}z.{digits + 1}f} {unit(measure)}"
