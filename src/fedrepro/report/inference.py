"""Inference beyond one sample's t interval: shared variances, several panels, equivalence, new runs, many tests."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedrepro.report.statistics import EPSILON, ROUNDING, Estimate, estimate, mean

MOST_PRIOR_DEGREES = 4.0  # larger ones are too bold in small families (benchmarks/coverage.py)
SMALLEST_FAMILY = 8  # differences; fewer do not tell how variances scatter
RESAMPLES = 2000


def prior_variance(variances: Sequence[float], degrees: Sequence[int]) -> tuple[float, float]:
    """Fit the scaled inverse chi-square distribution that variances of one family share.

    Smyth (2004), "Linear models and empirical Bayes methods", section 6.2: moments of the log variances.

    Args:
        variances: sample variances, all above 0.
        degrees: their degrees of freedom.

    Returns:
        The prior's degrees of freedom, infinite where the variances scatter no more than chance makes them, and its variance.
    """
    import numpy as np  # like scipy slow to import
    from scipy.special import digamma, polygamma

    half = np.asarray(degrees, float) / 2
    logs = np.log(np.asarray(variances, float)) - digamma(half) + np.log(half)
    excess = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if excess <= 0:
        return math.inf, float(np.exp(logs.mean()))
    prior = 2 * _inverse_trigamma(excess)
    return prior, float(np.exp(logs.mean() + digamma(prior / 2) - math.log(prior / 2)))


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = value by Newton's method on 1 / trigamma, which is convex (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def moderated(family: Sequence[Estimate], most: float = MOST_PRIOR_DEGREES) -> list[Estimate]:
    """Shrink the variances of a family of differences towards a common one (Smyth 2004, limma's empirical Bayes).

    The prior counts for at most `most` degrees of freedom. A family of fewer than `SMALLEST_FAMILY` estimates with a variance
    stays as it is, and so does an estimate of one seed or of equal values.
    """
    usable = [one for one in family if one.std is not None and one.std > ROUNDING]
    if len(usable) < SMALLEST_FAMILY:
        return list(family)
    prior, variance = prior_variance([one.std**2 for one in usable if one.std], [one.n - 1 for one in usable])
    prior = min(prior, most)

    def shrunk(one: Estimate) -> Estimate:
        if one.std is None or one.std <= ROUNDING:
            return one
        degrees = prior + one.n - 1
        pooled = (prior * variance + (one.n - 1) * one.std**2) / degrees
        return replace(one, std=math.sqrt(pooled), degrees=degrees)

    return [shrunk(one) for one in family]


def over_panels(panels: Sequence[Sequence[float]]) -> Estimate:
    """Estimate the mean over fixed panels, each of which counts the same, from the seeds of each.

    The panels are not a sample, the seeds within them are; degrees of freedom are Satterthwaite's (1946).
    """
    samples = [estimate(values) for values in panels]
    centre, pairs = mean([one.mean for one in samples]), sum(one.n for one in samples)
    errors = [one.std**2 / one.n for one in samples if one.std is not None]
    if len(errors) < len(samples):
        return Estimate(centre, None, pairs, panels=len(samples))
    total = sum(errors)
    if total < ROUNDING**2:
        return Estimate(centre, 0.0, pairs, panels=len(samples))
    degrees = total**2 / sum(error**2 / (one.n - 1) for error, one in zip(errors, samples, strict=True))
    return Estimate(centre, math.sqrt(total * pairs) / len(samples), pairs, degrees, len(samples))


def probability_of_improvement(
    ours: Sequence[Sequence[float]], others: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """Return P(ours > other) for a random run of each, averaged over panels, with its 95 % bootstrap interval.

    Runs are resampled within each panel (stratified bootstrap); a tie counts half. Agarwal et al. (2021), "Deep reinforcement
    learning at the edge of the statistical precipice".
    """
    import numpy as np

    from fedrepro.core.rng import numpy_generator  # imports torch

    draw = numpy_generator(0, "probability of improvement")
    pairs = [(np.asarray(one), np.asarray(other)) for one, other in zip(ours, others, strict=True)]

    def drawn(values: Any) -> Any:
        return values[draw.integers(len(values), size=(RESAMPLES, len(values)))]

    whole = mean([float(_superiority(one[None], other[None])[0]) for one, other in pairs])
    resampled = np.mean([_superiority(drawn(one), drawn(other)) for one, other in pairs], axis=0)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return whole, float(low), float(high)


def _superiority(one: Any, other: Any) -> Any:
    """Return the share of pairs (a, b) with a > b in each row of the arrays one (R, N) and other (R, M); ties count half."""
    difference = one[:, :, None] - other[:, None, :]
    return ((difference > 0).mean((1, 2)) + (difference >= 0).mean((1, 2))) / 2


def is_equivalent(found: Estimate, margin: float, around: float = 0.0, level: float = 0.05) -> bool:
    """Return whether two one-sided tests at `level` show that the mean lies within `around` +- `margin` (Schuirmann 1987).

    That is so where the interval of 1 - 2 level, at 5 % the 90 % interval, lies within the margin.
    """
    error = found.standard_error
    if error is None:
        return False
    return abs(found.mean - around) + found.quantile(1 - level) * error <= margin + EPSILON


def prediction_half_width(found: Estimate) -> float | None:
    """Return half of the 95 % interval in which the value of one more run, of each panel, lies; None for one seed.

    That is t s sqrt(1 + 1/n), of a mean over P panels t s sqrt(1/P + 1/n).
    """
    if found.std is None:
        return None
    return found.quantile(0.975) * found.std * math.sqrt(1 / found.panels + 1 / found.n)


def welch_half_width(found: Estimate, std: float, n: int) -> float | None:
    """Return half of the 95 % interval of our mean less that of `n` other runs with standard deviation `std` (Welch 1947)."""
    if found.std is None:
        return None
    ours, theirs = found.std**2 / found.n, std**2 / n
    degrees = (ours + theirs) ** 2 / (ours**2 / (found.n - 1) + theirs**2 / (n - 1))
    return replace(found, degrees=degrees).quantile(0.975) * math.sqrt(ours + theirs)
