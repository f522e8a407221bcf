"""From curves to numbers and from seeds to intervals, by hand and against scipy."""

import math

import pytest

from fedrepro.report.statistics import (
    MAX_SEEDS,
    Estimate,
    at_round,
    curve_distance,
    estimate,
    mean_last,
    rounds_to,
)

CURVE = list(enumerate([0.95, 0.1, 0.9, 0.2, 0.7, 0.8, 0.9]))  # round 0 stands before any training


@pytest.mark.parametrize(("target", "smooth", "expected"), [
    (0.9, 1, 2),  # a spike
    (0.9, 2, None),
    (0.75, 2, 5),  # (0.7 + 0.8) / 2
    (0.79, 3, 6),  # (0.7 + 0.8 + 0.9) / 3
    (0.5, 3, 4),  # (0.9 + 0.2 + 0.7) / 3
    (0.95, 1, None),  # reached in round 0 only, which does not count
    (0.0, 1, 1),
    (0.0, 4, 4),  # a mean of four rounds needs four
    (0.0, 7, None),
])  # fmt: skip
def test_rounds_to(target, smooth, expected):
    assert rounds_to(CURVE, target, smooth) == expected


def test_rounds_to_with_rounds_left_out():
    assert rounds_to([(0, 0.1), (5, 0.5), (10, 0.9)], 0.9) == 10
    assert rounds_to([(0, 0.99)], 0.5) is None and rounds_to([], 0.5) is None


def test_a_mean_on_the_target_is_there():
    """Five accuracies of FedCL at the paper's settings: their mean is 98 % exactly, and less in
    binary."""
    values = [0.9815, 0.9835, 0.9788, 0.9770, 0.9792]
    assert sum(values) / 5 < 0.98
    assert rounds_to(list(enumerate(values, 42)), 0.98, 5) == 46
    assert rounds_to(list(enumerate(values, 42)), 0.9801, 5) is None


def test_mean_last():
    assert mean_last(CURVE) == 0.9
    assert mean_last(CURVE, 3) == pytest.approx(0.8)
    # without round 0
    assert mean_last(CURVE, 100) == pytest.approx(sum(value for _, value in CURVE[1:]) / 6)
    assert mean_last([(0, 0.1)], 5) == 0.1
    # the last six rounds, two values
    assert mean_last([(0, 0.0), (5, 0.2), (10, 0.4)], 6) == pytest.approx(0.3)


def test_at_round():
    assert at_round(CURVE, 4) == 0.7
    assert at_round(CURVE, 6, 3) == pytest.approx(0.8)
    # in no mean, but told alone
    assert at_round(CURVE, 2, 3) == pytest.approx(0.5) and at_round(CURVE, 0) == 0.95
    assert at_round(CURVE, 7) is None and at_round(CURVE, 7, 5) is None
    gaps = [(0, 0.0), (5, 0.2), (10, 0.4)]
    assert at_round(gaps, 7) is None and at_round(gaps, 7, 3) == 0.2


def test_where_an_interval_lies():
    found = estimate([0.4, 0.5, 0.6])  # 0.2516 to 0.7484
    assert [found.side(value) for value in (0.25, 0.26, 0.74, 0.75)] == [1, 0, 0, -1]
    assert found.side(found.low) == found.side(found.high) == 0  # on its edges
    tie, single = estimate([0.0, 0.0]), estimate([0.4])
    assert (tie.side(), estimate([0.1, 0.1]).side(), estimate([-0.1, -0.1]).side()) == (0, 1, -1)
    assert single.side() == 0


@pytest.mark.parametrize(
    ("std", "difference", "expected"),
    [
        # as printed in tables of the paired t test's power: an effect of one deviation takes 10
        # pairs, one half 34
        (1.0, 1.0, 10),
        (2.0, -1.0, 34),
        (1.0, 1e6, 2),
        (0.0, 0.01, 2),
        (1.0, 1e-3, MAX_SEEDS + 1),
        (None, 1.0, None),
    ],
)
def test_seeds_that_would_show_a_difference(std, difference, expected):
    assert Estimate(0.3, std, 3).seeds_needed(difference) == expected


@pytest.mark.parametrize(
    ("seeds", "quantile"),
    [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (31, 2.042), (100, 1.984)],
)
def test_an_interval_is_as_wide_as_students_t_makes_it(seeds, quantile):
    assert Estimate(0.0, 2.0, seeds).half_width == pytest.approx(
        quantile * 2 / math.sqrt(seeds), rel=3e-4
    )


def test_distance():
    ours, theirs = (
        [(0, 9.0), (1, 0.1), (2, 0.5), (3, 0.6)],
        [(1, 0.1), (2, 0.2), (3, 1.0), (4, 7.0)],
    )
    assert curve_distance(ours, theirs) == (pytest.approx(math.sqrt((0 + 0.3**2 + 0.4**2) / 3)), 3)
    assert curve_distance(ours, theirs, 2) == (
        pytest.approx(math.sqrt(((0.3 - 0.15) ** 2 + (0.55 - 0.6) ** 2) / 2)),
        2,
    )
    assert curve_distance(ours, ours, 3) == (0, 1)
    assert curve_distance(ours, theirs, 4) is None and curve_distance(ours, [(9, 1.0)]) is None
