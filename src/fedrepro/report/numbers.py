"""Numbers over seeds, in the unit of their measure, and how they are told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedrepro.core.metrics import Measure
from fedrepro.report.statistics import Estimate, estimate

NO_VALUE = "-"
SCORE_NAMES = {"accuracy": "accuracy", "loss": "loss", "macro_f1": "macro-F1"}


@dataclass(frozen=True)
class Number:
    """A cell of a table, in the unit of its column: a mean over seeds with its 95 % interval, or a word instead of it."""

    value: float | None = None
    digits: int = 0
    half_width: float | None = None  # of the interval; of a paper's number the standard deviation
    n: int | None = None  # seeds behind it; None of a number that no seed has
    placeholder: str = NO_VALUE  # where there is no value
    qualifier: str = ""  # what restricts it: such a number is never the best
    signed: bool = False  # whether a plus is shown too
    best: bool = False

    @property
    def value_text(self) -> str:
        """The value as it is printed, without its interval."""
        return self.placeholder if self.value is None else f"{self.value:{'+' if self.signed else ''}z.{self.digits}f}"

    @property
    def half_width_text(self) -> str:
        """Half of the interval as it is printed; empty without one."""
        return "" if self.half_width is None else f"{self.half_width:.{self.digits}f}"

    def __str__(self) -> str:
        interval = f" ± {self.half_width_text}" if self.half_width_text else ""
        qualifier = f" ({self.qualifier})" if self.qualifier else ""
        return f"{self.value_text}{interval}{qualifier}"


@dataclass(frozen=True)
class Unit:
    """How a quantity is printed: its value times `factor`, with the unit's name behind it."""

    name: str
    difference_name: str  # of a distance between two values
    factor: int = 1
    digits: int | None = None  # always; None: as many as are asked for, and `more`
    extra_digits: int = 0
    signed: bool = False

    def format(self, value: float, digits: int = 1) -> str:
        return self._text(value, digits, self.name, "+" if self.signed else "")

    def format_distance(self, value: float, digits: int = 1) -> str:
        """A distance between two values, which has no sign."""
        return self._text(value, digits, self.difference_name)

    def format_interval(self, found: Estimate, digits: int = 1) -> str:
        """A mean with its 95 % interval, where there is one."""
        if found.half_width is None:
            return self.format(found.mean, digits)
        mean, name = self.format(found.mean, digits).rsplit(" ", 1)
        return f"{mean} ± {self.format_distance(found.half_width, digits).rsplit(' ', 1)[0]} {name}"

    def format_mean(self, found: Estimate, digits: int = 1) -> str:
        """The same with the number of seeds."""
        return f"{self.format_interval(found, digits)} ({'1 seed' if found.half_width is None else f'n = {found.n}'})"

    def _text(self, value: float, digits: int, name: str, sign: str = "") -> str:
        digits = digits + self.extra_digits if self.digits is None else self.digits
        number = f"{self.factor * value:{sign}z.{digits}f}"
        if name == "rounds":  # they are counted
            number = number.removesuffix(".0")
            name = "round" if number == "1" else name
        return f"{number} {name}"


PERCENT = Unit("%", "points", 100, 1)
CHANGE = Unit("%", "points", 100, 1, signed=True)  # against a baseline
ROUNDS, EPOCHS = Unit("rounds", "rounds", digits=1), Unit("epochs", "epochs", digits=1)
POINTS, NATS = Unit("points", "points", 100, signed=True), Unit("nats", "nats", extra_digits=1, signed=True)


def measure_unit(measure: Measure) -> Unit:
    """Unit of a value of the measure; a loss has one digit more than a percentage."""
    return Unit("%", "points", 100) if measure.percent else replace(NATS, signed=False)


def difference_unit(measure: Measure) -> Unit:
    """Unit of a difference of two values of the measure."""
    return POINTS if measure.percent else NATS


def mean_cell(values: Sequence[float], digits: int) -> Number:
    """Mean over seeds; a dash without any."""
    if not values:
        return Number(n=0)
    found = estimate(values)
    return Number(found.mean, digits, found.half_width, found.n)


def display_factor(measure: Measure) -> int:
    """From the stored to the shown number."""
    return 100 if measure.percent else 1


def measure_unit_name(measure: Measure) -> str:
    return "%" if measure.percent else "nats"


def difference_unit_name(measure: Measure) -> str:
    """The unit of a difference."""
    return "points" if measure.percent else measure_unit_name(measure)


def format_target(measure: Measure, value: float) -> str:
    """A target as it is told: 90 %, 0.35 nats."""
    return f"{display_factor(measure) * value:g} {measure_unit_name(measure)}"


def column_title(title: str, measure: Measure) -> str:
    """A table's column of values: Final accuracy (%)."""
    return f"{title} {SCORE_NAMES[measure.score]} ({measure_unit_name(measure)})"


def measure_cell(measure: Measure, values: Sequence[float]) -> Number:
    """Values of the measure over seeds: two digits of a percentage, four of a loss."""
    return mean_cell([display_factor(measure) * value for value in values], 2 if measure.percent else 4)


def reached_cell(values: Sequence[float | None], digits: int) -> Number:
    """Mean over the seeds that arrive; None stands for one that does not, and their number is told."""
    known = [float(value) for value in values if value is not None]
    if len(known) == len(values):
        return mean_cell(known, digits)
    if not known:
        return Number(n=0, placeholder="never")
    aside = f"{len(known)} of {len(values)} seeds arrive"
    return Number(sum(known) / len(known), max(digits, 1), n=len(known), qualifier=aside)


def significant_cell(value: float, digits: int) -> Number:
    """With so many digits in all, before and after the point."""
    size = math.floor(math.log10(abs(value))) if value else 0
    return Number(value, max(0, digits - 1 - size))


def megabytes_per_round(run: dict) -> float:
    """Sent down and up in a round by all participants together, mean over the run's rounds, in 10^6 bytes."""
    return (run["bytes_down"] + run["bytes_up"]) / max(run["rounds"], 1) / 1e6
