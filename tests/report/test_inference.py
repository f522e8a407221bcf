"""The statistics beyond one t interval, against scipy, by hand and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fedrepro.report import inference
from fedrepro.report.statistics import Estimate, benjamini_hochberg, estimate, holm


def test_a_prior_is_recovered_from_many_variances():
    draw = np.random.default_rng(1)
    true = 0.09 * 6 / draw.chisquare(6, 20_000)  # scaled inverse chi-square: 6 degrees of freedom, variance 0.09
    variances = true * draw.chisquare(2, 20_000) / 2
    degrees, variance = inference.prior_variance(list(variances), [2] * 20_000)
    assert degrees == pytest.approx(6, rel=0.1) and variance == pytest.approx(0.09, rel=0.03)


def test_variances_that_scatter_by_chance_alone_have_one_variance():
    degrees, variance = inference.prior_variance([0.5, 0.5, 0.5, 0.5], [2] * 4)
    assert degrees == math.inf
    assert variance == pytest.approx(0.5 * math.exp(0.5772156649))  # digamma(1) is minus Euler's constant


def test_moderated_variances_by_hand():
    family = [estimate([0.1 * k, 0.1 * k + 0.02, 0.1 * k + 0.04]) for k in range(8)]  # all have the variance 0.0004
    prior, variance = inference.prior_variance([0.0004] * 8, [2] * 8)
    assert prior == math.inf
    for one, shrunk in zip(family, inference.moderated(family), strict=True):
        assert (shrunk.mean, shrunk.n, shrunk.degrees) == (one.mean, 3, 6)
        assert shrunk.std == pytest.approx(math.sqrt((4 * variance + 2 * 0.0004) / 6))
        assert shrunk.half_width == pytest.approx(stats.t.ppf(0.975, 6) * shrunk.std / math.sqrt(3))


@pytest.mark.parametrize("extra", [Estimate(0.1, None, 1), Estimate(0.1, 0.0, 3)])
def test_what_has_no_variance_is_left_and_counts_for_no_family(extra):
    family = [estimate([0.0, 0.01 * k, 0.03]) for k in range(7)]
    assert inference.moderated([*family, extra]) == [*family, extra]
    eight = [*family, estimate([0.0, 0.05, 0.1])]
    assert inference.moderated([*eight, extra])[-1] == extra
    assert inference.moderated(eight) != eight


def test_over_panels_by_hand():
    panels = [[0.02, 0.04, 0.06], [0.01, 0.03]]
    found = inference.over_panels(panels)
    errors = [0.0004 / 3, 0.0002 / 2]
    assert found.mean == pytest.approx((0.04 + 0.02) / 2) and found.n == 5
    assert found.standard_error == pytest.approx(math.sqrt(sum(errors)) / 2)
    assert found.degrees == pytest.approx(sum(errors) ** 2 / (errors[0] ** 2 / 2 + errors[1] ** 2 / 1))


def test_panels_of_one_kind_are_one_sample_with_a_mean_of_their_own():
    panels = [[0.1, 0.3], [1.1, 1.3], [2.1, 2.3]]
    found = inference.over_panels(panels)
    assert found.degrees == pytest.approx(3) and found.standard_error == pytest.approx(math.sqrt(0.02 / 6))
    assert inference.over_panels([*panels, [0.5]]).std is None
    assert inference.over_panels([[1.0, 1.0], [2.0, 2.0]]) == Estimate(1.5, 0.0, 4, panels=2)


def test_one_more_run_of_each_panel_lies_in_the_prediction_interval():
    draw, inside = np.random.default_rng(4), 0
    for _ in range(4000):
        found = inference.over_panels(draw.normal(0, 1, (4, 12)).tolist())  # of three each 97 %: few make Satterthwaite's wide
        inside += abs(found.mean - draw.normal(0, 1, 4).mean()) <= inference.prediction_half_width(found)
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors


def test_probability_of_improvement_by_hand():
    """Panel 1: 3 of 4 pairs ahead. Panel 2: a tie and a defeat of two."""
    whole, low, high = inference.probability_of_improvement([[0.5, 0.9], [0.3]], [[0.4, 0.6], [0.3, 0.4]])
    assert whole == pytest.approx((3 / 4 + 1 / 4) / 2)
    assert 0 <= low <= whole <= high <= 1
    assert inference.probability_of_improvement([[1.0, 2.0]], [[0.0, 0.5]]) == (1.0, 1.0, 1.0)


def test_equivalence_is_two_one_sided_tests():
    values = [0.0004, -0.0002, 0.0001, 0.0003]
    found = estimate(values)
    edge = max(
        stats.ttest_1samp(values, -0.001, alternative="greater").pvalue,
        stats.ttest_1samp(values, 0.001, alternative="less").pvalue,
    )
    assert edge < 0.05 and inference.is_equivalent(found, 0.001)
    reach = abs(found.mean) + stats.t.ppf(0.95, 3) * found.standard_error
    assert inference.is_equivalent(found, reach) and not inference.is_equivalent(found, reach - 1e-6)
    assert not inference.is_equivalent(Estimate(0.0, None, 1), 1.0)


def test_one_more_run_lies_in_the_prediction_interval():
    draw = np.random.default_rng(3)
    inside = 0
    for _ in range(4000):
        found, new = estimate(list(draw.normal(0, 1, 4))), draw.normal()
        inside += abs(found.mean - new) <= inference.prediction_half_width(found)
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)
    assert inference.prediction_half_width(Estimate(1.0, None, 1)) is None


def test_welch_against_scipy():
    ours = estimate([0.61, 0.64, 0.66])
    half = inference.welch_half_width(ours, 0.02, 5)
    edge = stats.ttest_ind_from_stats(
        half, ours.std, 3, 0.0, 0.02, 5, equal_var=False
    )  # a difference as large as the half width
    assert edge.pvalue == pytest.approx(0.05)


def test_corrections_for_many_tests_by_hand():
    p = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    assert holm(p) == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert benjamini_hochberg(p) == pytest.approx({"d": 0.02, "a": 0.02, "c": 0.04, "b": 0.04})
    assert holm({}) == benjamini_hochberg({}) == {}
