"""What every kind of cell has, and the two shapes that most of them take."""

import math
from typing import ClassVar

from fedrepro.config import Count, Frozen, NonNegative
from fedrepro.measures import Measure
from fedrepro.metrics import Curve
from fedrepro.report.evidence import Panel, Ref
from fedrepro.report.known import Known
from fedrepro.report.numbers import amount, unit


class Cell(Frozen):
    """A number of one series, or of one beside its baseline."""

    kind: str
    series: str

    study: ClassVar[str | None] = None  # whose gathered results it reads; None: the experiment's own
    word: ClassVar[str | None] = None  # what a claim reports instead of a number
    absolute: ClassVar[str | None] = None  # what it is, where it means something at the paper's own scale only
    signed: ClassVar[bool] = False  # whether its sign says who is better

    @property
    def labels(self) -> list[str]:
        """The series that it needs."""
        return [self.series]

    def check(self, known: Known, ref: Ref) -> None:
        """That series, study and measure exist."""
        if self.study:
            known.study(ref.experiment, self.study, self.labels)
        else:
            known.ref(ref, self.labels)

    def lost(self, panel: Panel) -> str:
        """Which of the runs that it needs diverged."""
        return "; ".join(f"{label}, {text}" for label in self.labels for text in panel.results.diverged(label))

    def found(self, panel: Panel) -> tuple[list[float], str]:
        """The value of each seed, and what keeps it from being one (empty if nothing does)."""
        raise NotImplementedError

    def needs(self, reported: float | str, tolerance: float) -> int:
        """Rounds that a run must have to say anything of a claim."""
        return 0

    def signs(self, panel: Panel) -> set[int]:
        """Where one of two series does not arrive, over seeds: 1 where the series arrives before its baseline, -1 where after
        it, 0 where neither is first. Empty where the cell cannot tell."""
        return set()

    def contradicted(self, panel: Panel) -> tuple[int, int, str] | None:
        """Of a cell that is no number: how many seeds speak against it, of how many, and what they say."""
        return None

    def at(self) -> float | None:
        """The target that it is about."""
        return getattr(self, "target", None)

    def digits(self, reported: float | str, measure: Measure) -> int:
        """Decimals: of points two where the reported number has two, else one."""
        return 1 if isinstance(reported, str) or math.isclose(round(100 * reported, 1), 100 * reported) else 2

    def show(self, value: float | str, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        """A value with its unit behind it."""
        raise NotImplementedError

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

    def found(self, panel: Panel) -> tuple[list[float], str]:
        if problem := self.lost(panel):
            return [], problem
        curves = {label: panel.curves(label) for label in self.labels}
        if unmeasured := [label for label in self.labels if not curves[label]]:
            return [], f"{' and '.join(unmeasured)} has no values of {panel.shown.measure}"
        found = {seed: self._of(panel, curves, seed) for seed in sorted({seed for seeds in curves.values() for seed in seeds})}
        problems = [f"seed {seed}: {value}" for seed, value in found.items() if isinstance(value, str)]
        return ([], "; ".join(problems)) if problems else (list(found.values()), "")

    def _of(self, panel: Panel, curves: dict[str, dict[int, Curve]], seed: int) -> float | str:
        if absent := [label for label in self.labels if seed not in curves[label]]:
            return f"no run of {absent[0]} with this seed"
        method, *baseline = (curves[label][seed] for label in self.labels)
        return self.value(panel, method, baseline[0] if baseline else None)


class ToTarget(OfCurves):
    """A cell about the rounds to a target: `smooth` > 1 asks for the mean of so many rounds, so that one spike does not
    count."""

    target: NonNegative
    smooth: Count = 1

    def missed(self, panel: Panel, label: str, curve: Curve) -> str:
        return f"{label} does not reach {amount(panel.measure, self.target)} within {curve[-1][0]} rounds"


def fraction(value: float) -> str:
    return f"{100 * value:z.1f} %"


def level(value: float, measure: Measure, digits: int) -> str:
    """A value of the measure itself; a loss with one digit more than a percentage."""
    return f"{100 * value:.{digits}f} %" if measure.percent else f"{value:.{digits + 1}f} {unit(measure)}"


def points(value: float, measure: Measure, signed: bool, digits: int) -> str:
    """A difference of two values of the measure."""
    sign = "+" if signed else ""
    if measure.percent:
        return f"{100 * value:{sign}z.{digits}f} points"
    return f"{value:{sign}z.{digits + 1}f} {unit(measure)}"
