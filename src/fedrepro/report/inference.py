"""Inference beyond one sample's t interval: several panels, equivalence, new runs, many tests."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedrepro.report.statistics import EPSILON, Estimate, estimate, mean


def over_panels(panels: Sequence[Mapping[int, float]]) -> Estimate:
    """Estimate the mean over fixed panels, each of which counts the same, from the values by seed in each.

    A seed draws initial weights, partition and batches of all panels, so their values depend on each other: the sample is that
    of the seeds' means over panels. Seeds that a panel lacks are left out; There is at least one common seed.
    """
    return estimate([mean([panel[seed] for panel in panels]) for seed in common_seeds(panels)])


def common_seeds(panels: Sequence[Mapping[int, Any]]) -> list[int]:
    """Return the seeds that all panels have, in order."""
    return sorted(set.intersection(*(set(panel) for panel in panels)))


def is_equivalent(found: Estimate, margin: float, around: float = 0.0, level: float = 0.05) -> bool:
    """Return whether two one-sided tests at `level` show that the mean lies within `around` +- `margin` (Schuirmann 1987).

    That is so where the interval of 1 - 2 level, at 5 % the 90 % interval, lies within the margin.
    """
    error = found.standard_error
    if error is None:
        return False
    return abs(found.mean - around) + found.quantile(1 - level) * error <= margin + EPSILON


def prediction_half_width(found: Estimate) -> float | None:
    """Return half of the 95 % interval in which the value of one more run lies, t s sqrt(1 + 1/n); None for one seed."""
    if found.std is None:
        return None
    return found.quantile(0.975) * found.std * math.sqrt(1 + 1 / found.n)


def welch_half_width(found: Estimate, std: float, n: int) -> float | None:
    """Return half of the 95 % interval of our mean less that of `n` other runs with standard deviation `std` (Welch 1947)."""
    if found.std is None:
        return None
    from scipy.special import stdtrit  # slow to import

    ours, theirs = found.std**2 / found.n, std**2 / n

    degrees = (ours + theirs) ** 2 / (ours**2 / (found.n - 1) + theirs**2 / (n - 1))
    return float(stdtrit(degrees, 0.975)) * math.sqrt(ours + theirs)
