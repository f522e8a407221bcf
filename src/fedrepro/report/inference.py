"""Inference beyond one sample's t interval: several panels, and the tolerance of a replication."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedrepro.report.statistics import Estimate, estimate, mean


def over_panels(panels: Sequence[Mapping[int, float]]) -> Estimate:
    """Estimate the mean over fixed panels, all of one weight, from each panel's values by seed (at
    least one is common to all).

    A seed draws initial weights, partition and batches of all panels, so the values of one seed
    depend on each other: the sample holds one value per seed, the mean over the panels. Seeds that
    a panel lacks are left out.
    """
    return estimate([mean([panel[seed] for panel in panels]) for seed in common_seeds(panels)])


def common_seeds(panels: Sequence[Mapping[int, Any]]) -> list[int]:
    """Return the seeds that all panels have, in order."""
    return sorted(set.intersection(*(set(panel) for panel in panels)))


@functools.cache
def replication_tolerance(runs: int, seeds: int, share: float = 0.95) -> float:
    """Return the tolerance that an exact replication meets in a `share` of cases, in standard
    deviations of a run.

    The reported mean is of `runs` runs, ours of `seeds`: they differ by D ~ N(0, 1/runs + 1/seeds).
    Our standard deviation S is independent of D, with (seeds - 1) S^2 chi-squared. The result
    solves P(|D| + t S / sqrt(seeds) <= tolerance) = share, the condition that the whole interval
    lies within the tolerance. A single seed has no interval: only |D| counts.
    """
    from scipy.integrate import quad  # slow to import
    from scipy.optimize import root_scalar
    from scipy.stats import chi, norm, t

    spread = math.sqrt(1 / runs + 1 / seeds)
    least = norm.ppf((1 + share) / 2) * spread
    if seeds == 1:
        return float(least)
    found = chi(seeds - 1, scale=1 / math.sqrt(seeds - 1))  # S
    reach = t.ppf(0.975, seeds - 1) / math.sqrt(seeds)  # half of the 95 % interval, in S

    def excess(tolerance: float) -> float:
        def given(quantile: float) -> float:  # of S
            return float(2 * norm.cdf((tolerance - reach * found.ppf(quantile)) / spread) - 1)

        return quad(given, 0, found.cdf(tolerance / reach))[0] - share

    # each of |D| and S stays below its quantile this often, so both at least in a `share` of cases
    both = (1 + share) / 2
    most = norm.ppf((1 + both) / 2) * spread + reach * found.ppf(both)
    return float(root_scalar(excess, bracket=(least, most), xtol=1e-10).root)
