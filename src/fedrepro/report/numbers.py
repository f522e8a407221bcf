"""Numbers over seeds in the unit of their measure, and their formatting."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedrepro.core.metrics import Measure
from fedrepro.report.statistics import Estimate, estimate

NO_VALUE, MINUS = "-", "\N{MINUS SIGN}"
HYPHEN = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")  # that is a minus sign
SCORE_NAMES = {"accuracy": "accuracy", "loss": "loss", "macro_f1": "macro-F1"}


@dataclass(frozen=True)
class Number:
    """A table cell in the unit of its column: a mean over seeds with its 95 % interval, or a
    placeholder without a value."""

    value: float | None = None
    digits: int = 0
    half_width: float | None = None  # of the interval; for a paper's number, its standard deviation
    n: int | None = None  # number of seeds; None if the number is no mean over seeds
    placeholder: str = NO_VALUE  # shown if `value` is None
    qualifier: str = ""  # limits what the number says; a qualified number is never the best
    signed: bool = False  # show a plus sign too
    best: bool = False
    # seed -> value, for paired tests
    samples: Mapping[int, float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def value_text(self) -> str:
        """Return the value as printed, without its interval."""
        return (
            self.placeholder
            if self.value is None
            else f"{self.value:{'+' if self.signed else ''}z.{self.digits}f}"
        )

    @property
    def half_width_text(self) -> str:
        """Return half of the interval as printed; empty without an interval."""
        return "" if self.half_width is None else f"{self.half_width:.{self.digits}f}"

    def __str__(self) -> str:
        interval = f" ± {self.half_width_text}" if self.half_width_text else ""
        qualifier = f" ({self.qualifier})" if self.qualifier else ""
        return with_minus_signs(f"{self.value_text}{interval}{qualifier}")


@dataclass(frozen=True)
class Unit:
    """The unit that a quantity is printed in: its value times `factor`, followed by the unit's
    name."""

    name: str
    difference_name: str  # of the difference between two values
    factor: int = 1
    digits: int | None = None  # decimals; None: as many as a call asks for, plus `extra_digits`
    extra_digits: int = 0
    signed: bool = False

    def format(self, value: float, digits: int = 1) -> str:
        return self._with_unit(value, digits, self.name, "+" if self.signed else "")

    def format_distance(self, value: float, digits: int = 1) -> str:
        """Format the size of a difference between two values, without a plus sign."""
        return self._with_unit(value, digits, self.difference_name)

    def format_interval(self, estimate: Estimate, digits: int = 1) -> str:
        """Format a mean with its 95 % interval; a single seed has no interval."""
        if estimate.half_width is None:
            return self.format(estimate.mean, digits)
        mean, name = self.format(estimate.mean, digits).rsplit(" ", 1)
        half_width, _ = self.format_distance(estimate.half_width, digits).rsplit(" ", 1)
        return f"{mean} ± {half_width} {name}"

    def format_mean(self, estimate: Estimate, digits: int = 1) -> str:
        """Format a mean with its 95 % interval and the number of seeds."""
        seeds = "1 seed" if estimate.half_width is None else f"n = {estimate.n}"
        return f"{self.format_interval(estimate, digits)} ({seeds})"

    def _with_unit(self, value: float, digits: int, name: str, sign: str = "") -> str:
        digits = digits + self.extra_digits if self.digits is None else self.digits
        number = f"{self.factor * value:{sign}z.{digits}f}"
        if name == "rounds":  # a count: no decimals for a whole number
            number = number.removesuffix(".0")
            name = "round" if number == "1" else name
        return f"{number} {name}"


@dataclass(frozen=True)
class RatioUnit(Unit):
    """The unit of the logarithm of a ratio, printed as the ratio: a mean of logarithms as the
    geometric mean."""

    def format(self, value: float, digits: int = 1) -> str:
        return f"{math.exp(value):.3g} {self.name}"

    def format_distance(self, value: float, digits: int = 1) -> str:
        return self.format(value)

    def format_interval(self, estimate: Estimate, digits: int = 1) -> str:
        if estimate.low is None or estimate.high is None:
            return self.format(estimate.mean)
        low, high = (f"{math.exp(edge):.3g}" for edge in (estimate.low, estimate.high))
        return f"{math.exp(estimate.mean):.3g} ({low} to {high}) {self.name}"


PERCENT = Unit("%", "points", 100, 1)
CHANGE = Unit("%", "points", 100, 1, signed=True)  # relative to a baseline
TIMES = RatioUnit("times", "times")
ROUNDS, EPOCHS = Unit("rounds", "rounds", digits=1), Unit("epochs", "epochs", digits=1)
POINTS, NATS = (
    Unit("points", "points", 100, signed=True),
    Unit("nats", "nats", extra_digits=1, signed=True),
)


def with_minus_signs(text: str) -> str:
    """Return a text with minus signs in place of the hyphens of its numbers."""
    return HYPHEN.sub(MINUS, text)


def measure_unit(measure: Measure) -> Unit:
    """Return the unit of a value of the measure; a loss has one decimal more than a percentage."""
    return Unit("%", "points", 100) if measure.percent else replace(NATS, signed=False)


def difference_unit(measure: Measure) -> Unit:
    """Return the unit of the difference between two values of the measure."""
    return POINTS if measure.percent else NATS


def mean_cell(values: Mapping[int, float], digits: int) -> Number:
    """Return the mean over seeds (seed -> value) with its interval; a dash without values."""
    if not values:
        return Number(n=0)
    result = estimate(list(values.values()))
    return Number(result.mean, digits, result.half_width, result.n, samples=values)


def display_factor(measure: Measure) -> int:
    """Return the factor from stored to shown values."""
    return 100 if measure.percent else 1


def measure_unit_name(measure: Measure) -> str:
    return "%" if measure.percent else "nats"


def difference_unit_name(measure: Measure) -> str:
    """Return the name of the unit of a difference."""
    return "points" if measure.percent else measure_unit_name(measure)


def format_target(measure: Measure, value: float) -> str:
    """Format a target, such as 90 % or 0.35 nats."""
    return f"{display_factor(measure) * value:g} {measure_unit_name(measure)}"


def column_title(title: str, measure: Measure) -> str:
    """Return the title of a column of values, such as "Final accuracy (%)"."""
    return f"{title} {SCORE_NAMES[measure.score]} ({measure_unit_name(measure)})"


def measure_cell(measure: Measure, values: Mapping[int, float]) -> Number:
    """Return the mean of the measure over seeds, with two decimals for a percentage and four for a
    loss."""
    factor = display_factor(measure)
    return mean_cell(
        {seed: factor * value for seed, value in values.items()}, 2 if measure.percent else 4
    )


def reached_cell(values: Mapping[int, float | None], digits: int) -> Number:
    """Return the mean over the seeds that reach a target, qualified by their number if some do not
    (None)."""
    reached = {seed: float(value) for seed, value in values.items() if value is not None}
    if len(reached) == len(values):
        return mean_cell(reached, digits)
    if not reached:
        return Number(n=0, placeholder="never")
    qualifier = (
        f"{len(reached)} of {len(values)} seeds "
        f"{'reaches' if len(reached) == 1 else 'reach'} the target"
    )
    return Number(
        sum(reached.values()) / len(reached), max(digits, 1), n=len(reached), qualifier=qualifier
    )


def significant_cell(value: float, digits: int) -> Number:
    """Return a number with this many significant digits."""
    exponent = math.floor(math.log10(abs(value))) if value else 0
    return Number(value, max(0, digits - 1 - exponent))


def megabytes_per_round(run: dict) -> float:
    """Return what all participants of a round receive and send together, averaged over the run's
    rounds, in 10^6 bytes."""
    return (run["bytes_down"] + run["bytes_up"]) / max(run["rounds"], 1) / 1e6
