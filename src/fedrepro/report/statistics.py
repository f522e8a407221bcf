"""Reductions of a curve to one number, and of the numbers of several seeds to a mean with its
interval."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
Item = TypeVar("Item")
Curve = Sequence[tuple[int, float]]  # (round, value), in the order of rounds
ROUNDING = 1e-12  # smaller differences of numbers around 1 are rounding errors of float64
EPSILON = 1e-9  # added to every threshold, so that rounding errors decide nothing
POWER = 0.8  # share of tries in which a true difference shall be detected
MAX_SEEDS = 1000  # nobody trains more
# in standard deviations; two seeds suffice for it, and scipy is accurate up to about here
MAX_EFFECT = 20.0


def mean_last(curve: Curve, rounds: int = 1) -> float:
    """Return the mean of the last `rounds` rounds. Round 0, before any training, counts only if
    there is no other."""
    end = curve[-1][0]
    return mean([value for round, value in curve if round > max(0, end - rounds)] or [curve[-1][1]])


def at_round(curve: Curve, round: int, smooth: int = 1) -> float | None:
    """Return the value at a round, averaged over the `smooth` rounds that end there; None if the
    curve ends earlier. Round 0 counts only if `round` is 0."""
    values = [
        value for when, value in curve if round - smooth < when <= round and (when or not round)
    ]
    return mean(values) if curve[-1][0] >= round and values else None


def best(curve: Curve, smooth: int = 1) -> float:
    """Return the highest mean of `smooth` consecutive measured rounds, without round 0; -inf if
    there are fewer."""
    return max(smoothed(curve, smooth).values(), default=-math.inf)


def rounds_to(curve: Curve, target: float, smooth: int = 1) -> int | None:
    """Return the first round whose value, averaged over the last `smooth` measured rounds, is at
    least `target`; None if there is none. Round 0, before any training, does not count."""
    return next(
        (round for round, value in smoothed(curve, smooth).items() if value >= target - EPSILON),
        None,
    )


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds with its 95 % interval (Student's t); `low` and `high` are None for a single
    seed."""

    mean: float
    std: float | None
    n: int

    @property
    def standard_error(self) -> float | None:
        return None if self.std is None else self.std / math.sqrt(self.n)

    @property
    def half_width(self) -> float | None:
        return None if self.standard_error is None else self.quantile * self.standard_error

    @property
    def quantile(self) -> float:
        """The 97.5 % quantile of Student's t with n - 1 degrees of freedom."""
        from scipy.special import stdtrit  # slow to import

        return float(stdtrit(self.n - 1, 0.975))

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width

    @property
    def p(self) -> float | None:
        """The p-value of a mean of 0 (Student's t, two-sided); None for a single seed, and if all
        values are the same number other than 0."""
        if self.std is None:
            return None
        if self.std < ROUNDING:
            return 1.0 if abs(self.mean) < ROUNDING else None
        from scipy.special import stdtr

        return float(2 * stdtr(self.n - 1, -abs(self.mean) * math.sqrt(self.n) / self.std))

    def seeds_needed(self, difference: float) -> int | None:
        """Return how many seeds would detect a true `difference` other than 0: in `POWER` of all
        tries, the interval would exclude zero, given the standard deviation found here (power of a
        t test, noncentral t distribution). `MAX_SEEDS` + 1 if `MAX_SEEDS` do not suffice; None for
        a single seed, which has no standard deviation."""
        if self.std is None:
            return None
        from scipy.special import nctdtr, stdtrit

        effect = min(abs(difference) / max(self.std, ROUNDING), MAX_EFFECT)
        missed = (
            nctdtr(n - 1, effect * math.sqrt(n), stdtrit(n - 1, 0.975))
            for n in range(2, MAX_SEEDS + 1)
        )
        return next((n for n, share in enumerate(missed, 2) if share <= 1 - POWER), MAX_SEEDS + 1)

    def side(self, value: float = 0.0) -> int:
        """Return 1 if the whole interval lies above `value`, -1 if it lies below, else 0, as for a
        single seed."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > value + EPSILON) - (self.high < value - EPSILON)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean and sample standard deviation of at least one value."""
    centre = mean(values)
    if len(values) == 1:
        return Estimate(centre, None, 1)
    return Estimate(
        centre,
        math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - 1)),
        len(values),
    )


def curve_distance(curve: Curve, reported: Curve, smooth: int = 1) -> tuple[float, int] | None:
    """Return the root mean squared difference of two curves over the rounds that both have, and the
    number of these rounds; None if there are none. Both curves are averaged over `smooth` measured
    rounds first."""
    ours, theirs = smoothed(curve, smooth), smoothed(reported, smooth)
    common = sorted(set(ours) & set(theirs))
    return (
        (math.sqrt(mean([(ours[round] - theirs[round]) ** 2 for round in common])), len(common))
        if common
        else None
    )


def smoothed(curve: Curve, smooth: int) -> dict[int, float]:
    """Return round -> mean of the `smooth` measured values that end there, without round 0 and the
    first rounds."""
    values = [(round, value) for round, value in curve if round > 0]
    return {
        values[i][0]: mean([v for _, v in values[i - smooth + 1 : i + 1]])
        for i in range(smooth - 1, len(values))
    }


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def grouped(pairs: Iterable[tuple[T, Item]]) -> dict[T, list[Item]]:
    """Return key -> the items of the pairs with this key, both in the order of the pairs."""
    groups: dict[T, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def holm(p_values: Mapping[T, float]) -> dict[T, float]:
    """Return each p value adjusted for the chance of a single false positive among all (Holm
    1979)."""
    ordered = sorted(p_values, key=lambda key: p_values[key])
    adjusted, largest = {}, 0.0
    for rank, key in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p_values[key]))
        adjusted[key] = largest
    return adjusted
