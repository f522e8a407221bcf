"""The statistics beyond one t interval, against scipy, by hand and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fedrepro.report import inference
from fedrepro.report.statistics import estimate, holm


def test_over_panels_a_seed_counts_once():
    """Seeds 0 and 1 are those of both panels: their means are 1.5 and 3.5 points."""
    found = inference.over_panels([{0: 0.02, 1: 0.04, 2: 0.06}, {1: 0.03, 0: 0.01}])
    assert (found.mean, found.n) == (pytest.approx(0.025), 2)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 1) * 0.01)


def test_intervals_hold_the_mean_of_panels_that_depend_on_each_other():
    draw, inside = np.random.default_rng(5), 0
    for _ in range(4000):
        panels = draw.normal(0, 1, (4, 5)) + draw.normal(0, 1, 5)  # a seed's part is in all four
        found = inference.over_panels([dict(enumerate(values)) for values in panels.tolist()])
        inside += abs(found.mean) <= found.half_width
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors


def test_the_tolerance_of_a_replication_by_hand():
    """With three seeds S^2 is exponential, so that P(|D| + k S <= T) has a closed form: by parts, 2
    Phi(T / d) - 1 less 2 k / d times the integral of exp(-s^2) phi((T - k s) / d) up to T / k, in
    which the square is completed."""
    # a single seed has no interval
    assert inference.replication_tolerance(5, 1) == pytest.approx(1.959964 * 1.2**0.5)
    spread, reach, tolerance = (
        (1 / 5 + 1 / 3) ** 0.5,
        4.302653 / 3**0.5,
        inference.replication_tolerance(5, 3),
    )
    width, ratio = (1 + reach**2 / (2 * spread**2)) ** -0.5, reach * tolerance / (2 * spread**2)
    middle = ratio * width**2
    gauss = math.exp(ratio * middle - tolerance**2 / (2 * spread**2)) * width / 2**0.5
    area = gauss * (
        stats.norm.cdf(2**0.5 * (tolerance / reach - middle) / width)
        - stats.norm.cdf(-(2**0.5) * middle / width)
    )
    assert 2 * stats.norm.cdf(tolerance / spread) - 1 - 2 * reach / spread * area == pytest.approx(
        0.95, abs=1e-6
    )


@pytest.mark.parametrize(("runs", "seeds"), [(5, 2), (5, 5), (2, 8)])
def test_an_exact_replication_meets_its_tolerance_in_nineteen_of_twenty_tries(runs, seeds):
    draw = np.random.default_rng(74)
    tries, tolerance = 4000, inference.replication_tolerance(runs, seeds)
    reported, ours = draw.normal(0, 1, (tries, runs)).mean(1), draw.normal(0, 1, (tries, seeds))
    found = [estimate(list(own)) for own in ours]
    met = [
        abs(one.mean - mean) + one.half_width <= tolerance
        for one, mean in zip(found, reported, strict=True)
    ]
    assert sum(met) / tries == pytest.approx(0.95, abs=0.0103)  # three standard errors


def test_holms_correction_by_hand():
    p = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    assert holm(p) == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({}) == {}
