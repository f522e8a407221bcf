"""Verdicts on claims, each from numbers that are worked out by hand; 12.706 and 4.303 are Student's
t for 2 and 3 seeds."""

import json
import math
import re
from dataclasses import replace

import pytest

from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.report import paper as spec
from fedrepro.report import quantities
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions
from fedrepro.report.reasons import ReasonKind
from fedrepro.report.statistics import estimate, holm
from fedrepro.report.verdicts import claim as claims
from fedrepro.report.verdicts import paper_curves, summary
from fedrepro.report.verdicts.decide import Verdict, after_holm, corrected, decide
from fedrepro.report.verdicts.rules import Status
from support.records import record
from support.results import OFFICIAL, arrives, ends, made, unfinished, waits
from support.tables import OWN, SPEC, own, read

SUPPORTED, CONTRADICTED, OPEN, NOT_TESTED = Status
LEANS_FOR, LEANS_AGAINST = "open, leans for", "open, leans against"
ROUNDS = {"kind": "rounds_to", "target": 0.9}
SAVING = {"kind": "rounds_to", "target": 0.9}
NEVER = {"kind": "best", "target": 0.9}
LAST = {"kind": "difference", "last": 5}
LARGER = LAST | {"series": "FedMMD", "baseline": "FedAvg", "than": "other"}


def claim(cell: dict, **values) -> claims.Claim:
    return claims.parse_claim(
        {"text": "t", "source": "s", "experiment": "f", "quantity": cell, **values}, "test"
    )


def verdict(
    cell: dict,
    method: dict,
    baseline: dict | None = None,
    compare: str = "full",
    lost: dict | None = None,
    **options,
):
    """The verdict on a claim about FedMMD, with FedAvg as its baseline and L2 as the `whole`."""
    cell = {"series": "FedMMD", **({"baseline": "FedAvg"} if baseline is not None else {}), **cell}
    settings = {
        key: options.pop(key) for key in ("calibrations", "sign_share", "others") if key in options
    }
    dataset, whole = options.pop("dataset", OFFICIAL), options.pop("whole", None)
    series = {"FedMMD": method, "FedAvg": baseline, "L2": whole}
    found = made(
        {label: curves for label, curves in series.items() if curves is not None},
        compare,
        lost,
        dataset=dataset,
    )
    return decide("key", claim(cell, **options), found, "test_accuracy", **settings)


def seeds(values, curve=arrives) -> dict[int, list[float]]:
    return {seed: curve(value) for seed, value in enumerate(values)}


def worded(found: Verdict) -> str:
    """The word before Holm's correction, with the lean of an open one."""
    return f"open, leans {found.lean}" if found.lean and found.status == OPEN else found.status


def whys(found: Verdict) -> list[ReasonKind]:
    return [one.kind for one in found.reasons]


DISTANCE = [ReasonKind.DISTANCE]
FAR = [ReasonKind.FAR, *DISTANCE]


@pytest.mark.parametrize(
    ("arrivals", "status", "reasons", "ours"),
    [
        ((10,), OPEN, [ReasonKind.ONE_SEED, *DISTANCE], "10 rounds (1 seed)"),
        ((10, 10, 11), SUPPORTED, DISTANCE, "10.3 ± 1.4 rounds (n = 3)"),  # 4.303 x 0.577 / sqrt 3
        ((9, 13), OPEN, [ReasonKind.OVER_EDGE, *DISTANCE], "11 ± 25.4 rounds (n = 2)"),
        # 4.303 x 1.528 / sqrt 3
        ((9, 10, 12), OPEN, [ReasonKind.OVER_EDGE, *DISTANCE], "10.3 ± 3.8 rounds (n = 3)"),
        ((15, 16, 15), CONTRADICTED, FAR, "15.3 ± 1.4 rounds (n = 3)"),
        # one more run: 5.3 +- 2.9
        ((5, 6, 5), OPEN, [ReasonKind.OVER_EDGE, *DISTANCE], "5.3 ± 1.4 rounds (n = 3)"),
        ((4, 5, 4), CONTRADICTED, FAR, "4.3 ± 1.4 rounds (n = 3)"),
        ((None,), OPEN, [ReasonKind.NOT_REACHED, ReasonKind.ONE_SEED], "FedMMD: 0 of 1 seed"),
        ((None,) * 3, CONTRADICTED, [ReasonKind.NOT_REACHED], "FedMMD: 0 of 3 seeds"),
        ((10, None, None), OPEN, [ReasonKind.NOT_REACHED], "FedMMD: 1 of 3 seeds (round 10)"),
    ],
)
def test_rounds_to(arrivals, status, reasons, ours):
    found = verdict(ROUNDS, seeds(arrivals), reported=10, tolerance=2)
    assert (worded(found), whys(found), found.our_value, found.reported) == (
        status,
        reasons,
        ours,
        "10 rounds",
    )
    late = tuple(seed for seed, arrival in enumerate(arrivals) if arrival is None)
    assert not late or found.reasons[0].seeds == late


def test_savings_of_two_experiments():
    """Half of FedAvg's rounds are saved here, a fifth there; where a seed misses the target nothing
    is decided."""
    cell = SAVING | {"than": "other", "than_target": 0.8}
    here = {"method": seeds([10, 10, 11]), "baseline": seeds([20, 20, 20])}
    there = made({"FedMMD": seeds([8, 8, 8]), "FedAvg": seeds([10, 10, 10])})
    larger = verdict(cell, **here, reported="larger", others=[there])
    assert worded(larger) == SUPPORTED and larger.ours.mean == pytest.approx(
        (0.5 + 0.5 + 0.45) / 3 - 0.2
    )
    late = made({"FedMMD": seeds([8, 8, None]), "FedAvg": seeds([10, 10, 10])})
    assert worded(verdict(cell, **here, reported="larger", others=[late])) == OPEN
    with pytest.raises(UserError, match="reported: .*'larger'"):
        claim(cell | {"series": "FedMMD", "baseline": "FedAvg"}, reported=0.5)
    other = made(
        {"FedMMD": {0: arrives(8), 2: arrives(8)}, "FedAvg": {0: arrives(10), 2: arrives(10)}}
    )
    unpaired = verdict(cell, seeds([10, 10]), seeds([20, 20]), reported="larger", others=[other])
    assert (worded(unpaired), set(whys(unpaired))) == (NOT_TESTED, {ReasonKind.UNPAIRED})


@pytest.mark.parametrize(
    ("rounds", "status"),
    [((12, 13, 12), SUPPORTED), ((6, 7, 6), CONTRADICTED), ((5, 15, 10), OPEN)],
)
def test_later_than_a_round(rounds, status):
    cell = {"kind": "rounds_to_plateau", "within": 0.01, "after": 9}
    assert worded(verdict(cell, seeds(rounds), reported="later")) == status


HALF = {"reported": 0.5, "tolerance": 0.1}


@pytest.mark.parametrize(
    ("method", "baseline", "full", "direction", "why"),
    [
        ((5,), (10,), OPEN, OPEN, ReasonKind.ONE_SEED),
        ((10,), (10,), OPEN, OPEN, ReasonKind.ONE_SEED),
        ((10, 10), (10, 10), CONTRADICTED, OPEN, None),  # a tie
        ((20, 20, 20), (10, 11, 10), CONTRADICTED, CONTRADICTED, None),
        ((10, 10, 10), (20, 20, 19), SUPPORTED, SUPPORTED, None),  # 50, 50 and 47.4 %
        # 50, 55 and 45 %: +- 12.4, its 90 % interval is inside
        ((10, 9, 11), (20, 20, 20), LEANS_FOR, SUPPORTED, None),
        ((10, 8, 12), (20, 20, 20), LEANS_FOR, SUPPORTED, None),  # 50, 60 and 40 %
        ((8, 8, 8), (10, 10, 11), LEANS_FOR, SUPPORTED, None),  # 20, 20 and 27.3 %
        ((5, 9), (10, 10), OPEN, OPEN, ReasonKind.CONTAINS_ZERO),  # 50 and 10 %
        ((5,), (None,), OPEN, OPEN, ReasonKind.ONE_REACHES),
        ((5, 5), (None, None), LEANS_FOR, LEANS_FOR, ReasonKind.ONE_REACHES),
        ((None, None), (5, 5), LEANS_AGAINST, LEANS_AGAINST, ReasonKind.NOT_REACHED),
        ((None,), (None,), OPEN, NOT_TESTED, ReasonKind.NOT_REACHED),
        ((None, None), (None, None), CONTRADICTED, NOT_TESTED, ReasonKind.NOT_REACHED),
        ((5, 5), (None, 10), OPEN, OPEN, ReasonKind.ONE_REACHES),
        ((5, None), (None, 5), OPEN, OPEN, ReasonKind.NOT_REACHED),
        ((5, None), (None, None), OPEN, OPEN, ReasonKind.NOT_REACHED),
    ],
)
def test_reduction(method, baseline, full, direction, why):
    """1 - rounds / the baseline's rounds, with the same seed. Reported: 50 %."""
    for compare, status in (("full", full), ("direction", direction)):
        found = verdict(SAVING, seeds(method), seeds(baseline), compare=compare, **HALF)
        assert worded(found) == status and (why is None or why in whys(found)), compare


@pytest.mark.parametrize("compare", ["full", "direction"])
def test_best_values_that_are_all_in_all_above_the_target_leave_it_open(compare):
    """One of five seeds misses it by a tenth of a point, the others pass it by five: their interval
    lies above it, 3.98 +- 2.83 points. That says neither that none arrives nor who is faster."""
    missed = seeds((4,) * 4) | {4: ends(0.899)}
    assert worded(verdict(SAVING, missed, missed, compare, **HALF)) == "open"
    found = verdict(ROUNDS, missed, compare=compare, reported=4, tolerance=2)
    assert worded(found) == ("open" if compare == "full" else "not tested")


def test_a_reported_loss_is_judged_by_its_own_sign():
    slow, fast, never = seeds((20, 20)), seeds((10, 10)), seeds((None, None))
    claim = {"reported": -1, "tolerance": 0.1}
    assert worded(verdict(SAVING, slow, fast, **claim)) == "supported"
    assert worded(verdict(SAVING, never, fast, **claim)) == "open, leans for"
    assert worded(verdict(SAVING, fast, never, **claim)) == "open, leans against"
    assert worded(verdict(SAVING, fast, never, "direction", **claim)) == "open, leans against"


def test_edge_of_the_tolerance():
    """0.8 - 0.7 is a little more than 0.1 in binary; the last bit decides nothing."""
    claim = {"reported": 0.7, "tolerance": 0.1}
    assert worded(verdict(SAVING, seeds((4, 4)), seeds((20, 20)), **claim)) == "supported"
    assert worded(verdict(SAVING, seeds((3, 3)), seeds((20, 20)), **claim)) == "open, leans for"


@pytest.mark.parametrize(
    ("differences", "reported", "full", "direction"),
    [
        ((-0.09,), -0.09, "open", "open"),
        ((0.0002,), -0.0012, "open", "open"),
        ((-0.09, -0.09), -0.09, "supported", "supported"),
        ((-0.09, -0.091, -0.089), -0.09, "supported", "supported"),
        # half the interval: 4.303 x 0.005 / sqrt 3 = 0.0124
        ((-0.09, -0.095, -0.085), -0.09, "supported", "supported"),
        ((-0.09, -0.1, -0.08), -0.09, "open, leans for", "supported"),  # 0.0248
        ((-0.03, -0.031, -0.029), -0.09, "open, leans for", "supported"),
        ((-0.14, -0.04), -0.09, "open", "open"),  # 12.706 x 0.0707 / sqrt 2 = 0.64
        ((0.05, 0.051, 0.049), -0.09, "contradicted", "contradicted"),
        # +- 0.0248: nothing as large as -0.0900 +- a tenth
        ((-0.01, 0.01, 0.0), -0.09, "contradicted", "open"),
        ((-0.07, 0.01, 0.0), -0.09, "open", "open"),  # -0.02 +- 0.11
        ((0.01,), 0, "open", "not tested"),
        ((0.001, 0.002), 0, "supported", "not tested"),  # 0.0015 +- 0.0064
        ((0.001, 0.0025), 0, "supported", "not tested"),  # 0.00175 +- 0.0095
        # 0.0025 +- 0.0191, of which the 90 % interval is inside
        ((0.001, 0.004), 0, "open", "not tested"),
        ((0.02, 0.021, 0.022), 0, "contradicted", "not tested"),
        (
            (0.1, -0.1),
            0,
            "open",
            "not tested",
        ),  # no difference on average, but nothing is shown by it
    ],
)
def test_difference(differences, reported, full, direction):
    method, baseline = (
        seeds([0.5 + value for value in differences], ends),
        seeds([0.5] * len(differences), ends),
    )
    for compare, status in (("full", full), ("direction", direction)):
        assert (
            worded(verdict(LAST, method, baseline, compare, reported=reported, tolerance=0.015))
            == status
        ), compare


def test_a_wide_tolerance_says_no_more_than_the_direction():
    method, baseline = seeds((0.59, 0.591), ends), seeds((0.5, 0.5), ends)
    for tolerance, status in ((0.045, "supported"), (0.046, "open, leans for")):
        found = verdict(LAST, method, baseline, reported=0.09, tolerance=tolerance)
        assert worded(found) == status and (ReasonKind.WIDE_TOLERANCE in whys(found)) == (
            status == "open, leans for"
        )


def test_seeds_are_paired():
    """Seeds far apart, the same gain for each: its interval is narrow. In another order of the
    seeds too."""
    method, baseline = {0: ends(0.3), 1: ends(0.9)}, {1: ends(0.8), 0: ends(0.2)}
    found = verdict(LAST, method, baseline, reported=0.1, tolerance=0.01)
    assert (worded(found), found.our_value) == ("supported", "+10.0 ± 0.0 points (n = 2)")
    method, baseline = {1: arrives(10), 0: arrives(4)}, {0: arrives(8), 1: arrives(20)}
    assert verdict(SAVING, method, baseline, **HALF).our_value == "50.0 ± 0.0 % (n = 2)"


def test_difference_at_a_round():
    method, baseline = [0.1, 0.2, 0.6, 0.9], [0.1, 0.1, 0.3, 0.9]
    cell = {"kind": "difference", "round": 2}
    assert (
        verdict(cell, {0: method}, {0: baseline}, reported=0.3, tolerance=0.01).our_value
        == "+30.0 points (1 seed)"
    )
    assert (
        verdict(cell | {"smooth": 2}, {0: method}, {0: baseline}, reported=0.3).our_value
        == "+20.0 points (1 seed)"
    )
    found = verdict(cell | {"round": 9}, {0: method}, {0: baseline}, "direction", reported=0.3)
    assert (worded(found), whys(found)) == (NOT_TESTED, [ReasonKind.NO_ROUND])


@pytest.mark.parametrize(
    ("accuracies", "compare", "status", "reasons"),
    [
        ((0.9,), "full", OPEN, [ReasonKind.ONE_SEED, *DISTANCE]),
        ((0.899, 0.9, 0.9), "full", SUPPORTED, DISTANCE),  # 89.97 +- 0.14
        ((0.897, 0.9, 0.9), "full", SUPPORTED, DISTANCE),  # 89.9 +- 0.43
        # 89.9 +- 0.66, its 90 % interval is inside
        ((0.896, 0.9, 0.901), "full", OPEN, [ReasonKind.OVER_EDGE, *DISTANCE]),
        ((0.895, 0.9, 0.902), "full", OPEN, [ReasonKind.OVER_EDGE, *DISTANCE]),  # 89.9 +- 0.90
        # 89.57 +- 0.57: over the lower one alone
        ((0.893, 0.897, 0.897), "full", OPEN, [ReasonKind.OVER_EDGE, *DISTANCE]),
        # 90.23 +- 0.29: over the upper one
        ((0.901, 0.903, 0.903), "full", OPEN, [ReasonKind.OVER_EDGE, *DISTANCE]),
        ((0.88, 0.881, 0.88), "full", CONTRADICTED, FAR),
        ((0.9, 0.9), "direction", NOT_TESTED, [ReasonKind.PAPER_ONLY]),
    ],
)
def test_an_accuracy_itself(accuracies, compare, status, reasons):
    found = verdict(
        {"kind": "value", "last": 5},
        seeds(accuracies, ends),
        compare=compare,
        reported=0.8989,
        tolerance=0.005,
    )
    assert (worded(found), whys(found), found.reported) == (status, reasons, "89.89 %")
    assert (
        found.our_value.startswith(f"{100 * sum(accuracies) / len(accuracies):.2f} ")
        and " %" in found.our_value
    )


@pytest.mark.parametrize(
    ("curves", "cell", "status", "ours"),
    [
        ((ends(0.8),), {}, OPEN, "0 of 1 seed; 80.00 % (1 seed)"),
        ((arrives(7),), {}, OPEN, "1 of 1 seed (round 7); 95.00 % (1 seed)"),
        ((ends(0.8), ends(0.81)), {}, SUPPORTED, "0 of 2 seeds; 80.50 ± 6.35 % (n = 2)"),
        (
            (arrives(3), arrives(7)),
            {},
            CONTRADICTED,
            "2 of 2 seeds (rounds 3 to 7); 95.00 ± 0.00 % (n = 2)",
        ),
        ((ends(0.8), arrives(7)), {}, OPEN, "1 of 2 seeds (round 7); 87.50"),
        # round 0: no training
        (([0.95] + [0.5] * 20,) * 2, {}, SUPPORTED, "0 of 2 seeds; 50.00 ± 0.00 % (n = 2)"),
        # a spike
        (
            ([0.5] * 10 + [0.95] + [0.5] * 10,) * 2,
            {"smooth": 5},
            SUPPORTED,
            "0 of 2 seeds; 59.00 ± 0.00",
        ),
        ((arrives(18),) * 2, {"round": 15}, SUPPORTED, "0 of 2 seeds; 50.00 ± 0.00 % (n = 2)"),
        ((ends(0.8, 10),) * 2, {"round": 15}, NOT_TESTED, "0 of 2 seeds; 80.00"),
    ],
)
def test_never(curves, cell, status, ours):
    """The best values are held against the target."""
    found = verdict(NEVER | cell, dict(enumerate(curves)), reported="never")
    assert (
        worded(found) == status
        and found.our_value.startswith(f"FedMMD: {ours}")
        and found.reported == "never"
    )
    assert found.p is None


@pytest.mark.parametrize(
    ("cell", "claim", "curve", "measured"),
    [
        (
            {"kind": "rounds_to_plateau", "within": 0.01, "smooth": 3},
            {"reported": 2, "tolerance": 1},
            [0.1, 0.5, 0.6],
            "2 rounds",
        ),
        (NEVER | {"smooth": 5}, {"reported": "never"}, ends(0.8, 3), "3 rounds"),
        (ROUNDS | {"smooth": 5}, {"reported": 3, "tolerance": 1}, [0.1, *[0.95] * 4], "4 rounds"),
    ],
)
def test_too_few_rounds_for_a_mean(cell, claim, curve, measured):
    for other in (curve, curve + curve[-1:] * 20):  # it takes one of the seeds
        found = verdict(cell, {0: other, 1: curve}, **claim)
        assert (worded(found), found.our_value, whys(found)) == (
            NOT_TESTED,
            "-",
            [ReasonKind.TOO_SHORT],
        )
        assert found.reasons[0].values["rounds"] == measured


def test_one_spike_is_no_arrival():
    """As means of two rounds FedMMD arrives in round 4 and FedAvg in round 8, each after a spike in
    round 1."""
    ours, baseline = ({0: [0.1, 0.95, *[0.5] * low, *[0.95] * 3]} for low in (1, 5))
    assert (
        verdict(ROUNDS | {"smooth": 2}, ours, reported=4, tolerance=1).our_value
        == "4 rounds (1 seed)"
    )
    assert verdict(SAVING | {"smooth": 2}, ours, baseline, **HALF).our_value == "50.0 % (1 seed)"
    assert verdict(ROUNDS, ours, reported=4, tolerance=1).our_value == "1 round (1 seed)"
    assert verdict(SAVING, ours, baseline, **HALF).our_value == "0.0 % (1 seed)"


def test_rounds_that_were_not_measured_do_not_count_in_a_mean():
    """Four values of a run of 20 rounds, all at the target: no mean of five."""
    stated = claim(
        ROUNDS | {"series": "FedMMD", "smooth": 5}, reported=10, tolerance=2, because="asked"
    )
    found = made({"FedMMD": seeds((0.95, 0.95), lambda value: [0.1, *[value] * 20])})
    found = Results(found.note, [row for row in found.rows if int(row["round"]) % 5 == 0])
    told = decide("key", stated, found, "test_accuracy")
    assert (worded(told), whys(told)) == (NOT_TESTED, [ReasonKind.TOO_SHORT]) and told.reasons[
        0
    ].values["smooth"] == 5


def test_a_mean_of_measured_rounds_counts_values_and_one_of_rounds_does_not():
    """Measured in every fifth of 20 rounds: the last five rounds have one value, 0.9; the last
    three measured ones 0.6, 0.75 and 0.9, less 0.5."""
    curve = [0.1, *[0.3] * 5, *[0.6] * 5, *[0.75] * 5, *[0.9] * 5]
    for measured, mean in ({}, 0.4), ({"measured": True, "last": 3}, 0.25):
        cell = LAST | {"series": "FedMMD", "baseline": "FedAvg"} | measured
        found = made({"FedMMD": {0: curve, 1: curve}, "FedAvg": seeds((0.5, 0.5), ends)})
        found = Results(found.note, [row for row in found.rows if int(row["round"]) % 5 == 0])
        told = decide("key", claim(cell, reported="higher"), found, "test_accuracy")
        assert told.ours.mean == pytest.approx(mean)
        assert not measured or whys(
            decide("key", claim(cell | {"last": 5}, reported="higher"), found, "test_accuracy")
        ) == [ReasonKind.TOO_SHORT]
    with pytest.raises(UserError, match="measured: only with last"):
        claim({"kind": "value", "series": "FedMMD", "round": 3, "measured": True}, reported=0.1)


# ---- claims that report a word

SLACK, MOST = {"slack": 0.05}, {"whole": "L2"}


@pytest.mark.parametrize(
    ("cell", "word", "ours", "baseline", "full", "direction", "why"),
    [
        ({}, "higher", (0.9,), (0.8,), OPEN, OPEN, ReasonKind.ONE_SEED),
        ({}, "higher", (0.9, 0.91), (0.8, 0.81), SUPPORTED, SUPPORTED, ReasonKind.AS_CLAIMED),
        # that stands by itself
        (
            {},
            "higher",
            (0.8, 0.81),
            (0.9, 0.91),
            CONTRADICTED,
            CONTRADICTED,
            ReasonKind.BELOW_LEAST,
        ),
        ({}, "higher", (0.9, 0.7), (0.8, 0.81), OPEN, OPEN, ReasonKind.CONTAINS_ZERO),
        # less than 0.04 in log odds, 0.64 points at 80 %, would not count; here +- 0.0006
        ({}, "higher", (0.8008, 0.8009), (0.8, 0.8), SUPPORTED, SUPPORTED, ReasonKind.AS_CLAIMED),
        # at most 0.00045 + 12.706 x 0.00045
        ({}, "higher", (0.8, 0.8009), (0.8, 0.8), CONTRADICTED, OPEN, ReasonKind.BELOW_LEAST),
        # at most 0.0069
        ({}, "higher", (0.8, 0.801), (0.8, 0.8), OPEN, OPEN, ReasonKind.CONTAINS_ZERO),
        # 0.0007; 0.0004 counts
        ({}, "higher", (0.99, 0.9902), (0.99, 0.99), OPEN, OPEN, ReasonKind.CONTAINS_ZERO),
        # how small a difference is means something else where directions are judged: no slack there
        (
            SLACK,
            "no lower",
            (0.79, 0.8),
            (0.8, 0.81),
            SUPPORTED,
            CONTRADICTED,
            ReasonKind.AS_CLAIMED,
        ),
        (SLACK, "no lower", (0.9, 0.91), (0.8, 0.81), SUPPORTED, SUPPORTED, ReasonKind.AS_CLAIMED),
        (
            SLACK,
            "no lower",
            (0.70, 0.71),
            (0.8, 0.81),
            CONTRADICTED,
            CONTRADICTED,
            ReasonKind.OPPOSITE,
        ),
        (SLACK, "no lower", (0.74, 0.8), (0.8, 0.81), OPEN, OPEN, ReasonKind.CONTAINS_ZERO),
        # however closely
        (
            SLACK,
            "no lower",
            (0.75, 0.7601),
            (0.8, 0.81),
            OPEN,
            CONTRADICTED,
            ReasonKind.CONTAINS_ZERO,
        ),
    ],
)
def test_words(cell, word, ours, baseline, full, direction, why):
    for compare, status in (("full", full), ("direction", direction)):
        found = verdict(
            LAST | cell, seeds(ours, ends), seeds(baseline, ends), compare, reported=word
        )
        assert (worded(found), found.reported, found.seeds_needed) == (status, word, None)
        assert compare == "direction" or whys(found)[-1] == why
        if word == "no lower" and compare == "full" and found.ours.std > 1e-12:
            assert found.p == pytest.approx(
                estimate([a - b + 0.05 for a, b in zip(ours, baseline, strict=True)]).p
            )
    assert found.ours.mean == pytest.approx((sum(ours) - sum(baseline)) / len(ours))


@pytest.mark.parametrize(
    ("ours", "whole", "status", "found", "why"),
    [
        # 7 of 10 points
        ((0.87, 0.88), (0.9, 0.91), SUPPORTED, "+2.00 ± 0.00 points", ReasonKind.AS_CLAIMED),
        ((0.82, 0.83), (0.9, 0.91), CONTRADICTED, "-3.00 ± 0.00 points", ReasonKind.OPPOSITE),
        # L2 has no gain to keep
        ((0.9, 0.91), (0.78, 0.79), CONTRADICTED, "+11.00 ± 0.00 points", ReasonKind.OPPOSITE),
        # 9, 7; of gains of 2, 8
        ((0.9, 0.92), (0.82, 0.89), OPEN, "+8.00 ± ", ReasonKind.ONE_CONTAINS_ZERO),
        # 0 and 0.01: however closely
        ((0.85, 0.8601), (0.9, 0.91), OPEN, "+0.0", ReasonKind.ONE_CONTAINS_ZERO),
    ],
)
def test_most_of_a_gain(ours, whole, status, found, why):
    baseline = seeds((0.8, 0.81), ends)
    told = verdict(
        LAST | MOST, seeds(ours, ends), baseline, whole=seeds(whole, ends), reported="most"
    )
    assert (worded(told), whys(told)) == (status, [why]) and told.our_value.startswith(found)
    lacking = verdict(
        LAST | MOST, seeds(ours, ends), baseline, whole=seeds(whole[:1], ends), reported="most"
    )
    assert (worded(lacking), whys(lacking), lacking.reasons[0].values["series"]) == (
        NOT_TESTED,
        [ReasonKind.UNPAIRED],
        "L2",
    )


def test_what_is_kept_at_a_round_is_of_the_means_that_end_there():
    """65, 40 and 80 % over two rounds: of a gain of 40 points 25 are kept, 5 more than half; in
    round 2 alone 40 of 60."""
    ours, baseline, whole = {0: [0.1, 0.5, 0.8]}, {0: [0.1, 0.4, 0.4]}, {0: [0.1, 0.6, 1.0]}
    cell = {"kind": "difference", "round": 2, "smooth": 2} | MOST
    assert (
        verdict(cell, ours, baseline, whole=whole, reported="most").our_value
        == "+5.00 points (1 seed)"
    )


def test_a_published_mean_is_held_to_its_own_scatter():
    """Ours 0.62 with s.d. 0.01 of three runs, the paper's 0.66: in reach of one more run, not of a
    sure mean of five. A s.d. of its five runs allows 5.009 times as much: 0.51, 5.01 and 15.02
    points."""
    cell, values = {"kind": "value", "last": 5}, seeds((0.61, 0.62, 0.63), ends)
    assert worded(verdict(cell, values, reported=0.66, tolerance=0.005)) == OPEN  # 4.303 x 0.0115
    # 4 + 2.48 points: beyond 5.01, within 15.02
    for std, status in ((0.001, CONTRADICTED), (0.01, OPEN), (0.03, SUPPORTED)):
        found = verdict(cell, values, reported=0.66, reported_std=std, reported_runs=5)
        assert worded(found) == status
        allowed = f"{math.ceil(500.657 * std * 100) / 100:.2f} points"
        assert found.tolerance.startswith(
            f"{allowed} with our 3 seeds: what an exact replication meets in 95 % of cases"
        )
        assert found.reasons[-1].values["allowed"] == allowed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reported_std": 0.1, "tolerance": 0.1}, "reported_std and reported_runs"),
        (
            {"reported_std": 0.1, "reported_runs": 5, "tolerance": 0.1},
            "tolerance, because: computed from reported_std",
        ),
        (
            {"reported_std": 0.1, "reported_runs": 5, "because": "so"},
            "tolerance, because: computed from reported_std",
        ),
    ],
)
def test_a_standard_deviation_makes_the_tolerance(values, message):
    with pytest.raises(UserError, match=message):
        claim({"kind": "value", "series": "FedMMD", "last": 5}, reported=0.5, **values)


def test_the_smallest_lead_over_panels_is_that_of_their_mean_level():
    """0.04 log odds at (0.8 + 0.99) / 2 are 0.376 points; the intervals end at 0.343 and 0.411,
    13.706 times the mean."""
    pooled = LAST | {"series": "FedMMD", "baseline": "FedAvg", "also": ["other"]}
    for lead, status in ((0.0005, CONTRADICTED), (0.0006, OPEN)):
        here, there = (
            made({"FedMMD": seeds((a, a + lead), ends), "FedAvg": seeds((a, a), ends)})
            for a in (0.8, 0.99)
        )
        assert (
            decide(
                "k", claim(pooled, reported="higher"), here, "test_accuracy", others=[there]
            ).status
            == status
        )


def test_a_mean_over_panels():
    """Leads of 2 and 4 points here, of 1 and 3 there; then one panel diverges."""
    pooled = LAST | {"series": "FedMMD", "baseline": "FedAvg", "also": ["other"]}
    here = {"FedMMD": seeds((0.82, 0.85), ends), "FedAvg": seeds((0.80, 0.81), ends)}
    there = {"FedMMD": seeds((0.71, 0.73), ends), "FedAvg": seeds((0.70, 0.70), ends)}
    assert claim(pooled, reported="higher").sources == ["f", "other"]
    told = decide(
        "k", claim(pooled, reported="higher"), made(here), "test_accuracy", others=[made(there)]
    )
    assert (told.ours.mean, told.ours.n) == (pytest.approx(0.025), 2)  # 1.5 and 3.5 points
    assert told.ours.half_width == pytest.approx(0.12706, abs=1e-5)
    # +- 12.706 x 0.01
    assert (worded(told), whys(told)) == (OPEN, [ReasonKind.CONTAINS_ZERO, ReasonKind.POOLED])
    values = told.reasons[1].values
    assert (values["panels"], values["ahead"], values["pairs"]) == (2, 4, 4)
    # no such seed here
    more = {"FedMMD": there["FedMMD"] | {2: ends(0.99)}, "FedAvg": there["FedAvg"] | {2: ends(0.1)}}
    assert (
        decide(
            "k", claim(pooled, reported="higher"), made(here), "test_accuracy", others=[made(more)]
        ).ours
        == told.ours
    )
    apart = {
        label: {seed + 2: curve for seed, curve in runs.items()} for label, runs in there.items()
    }
    found = decide(
        "k", claim(pooled, reported="higher"), made(here), "test_accuracy", others=[made(apart)]
    )
    assert worded(found) == NOT_TESTED and set(whys(found)) == {ReasonKind.UNPAIRED}
    lost = made(there, lost={("FedMMD", 1): "diverged"})
    assert whys(
        decide("k", claim(pooled, reported="higher"), made(here), "test_accuracy", others=[lost])
    ) == [ReasonKind.DIVERGED]


def larger(here: tuple, there: tuple, baseline: tuple = (0.8, 0.81), **changes) -> Verdict:
    """The verdict on a lead that is said to be larger here than there."""
    both = (
        {"FedMMD": seeds(ours, ends), "FedAvg": seeds(baseline, ends)} for ours in (here, there)
    )
    first, other = both
    return decide(
        "k",
        claim(LARGER, reported="larger"),
        made(first),
        "test_accuracy",
        others=[made(other, **changes)],
    )


def test_one_series_in_two_experiments():
    """0.60, 0.61, 0.60 here and 0.70, 0.70, 0.69 there: -9.33 points, s.d. 0.58, paired by seed."""
    cell = LAST | {"series": "FedMMD", "than": "other"}
    here, there = (
        made({"FedMMD": seeds(values, ends)}) for values in ((0.60, 0.61, 0.60), (0.70, 0.70, 0.69))
    )
    stated = claim(cell, reported="lower")
    found = decide("k", stated, here, "test_accuracy", others=[there])
    assert (
        found.our_value == "-9.33 ± 1.43 points (n = 3)"
        and found.p < 0.01
        and whys(found) == [ReasonKind.AS_CLAIMED]
    )
    assert stated.sources == ["f", "other"]
    assert ReasonKind.OPPOSITE in whys(
        decide("k", claim(cell, reported="higher"), here, "test_accuracy", others=[there])
    )
    assert (
        decide(
            "k", claim(cell, reported=-0.09, tolerance=0.02), here, "test_accuracy", others=[there]
        ).ours.mean
        < -0.09
    )
    with pytest.raises(UserError, match="baseline: expected a series"):
        claim(LAST | {"series": "FedMMD"}, reported="lower")


@pytest.mark.parametrize(
    ("here", "there", "status", "found", "why"),
    [
        (
            (0.9, 0.91),
            (0.84, 0.85),
            SUPPORTED,
            "+6.00 ± 0.00 points",
            ReasonKind.AS_CLAIMED,
        ),  # 10, 4
        ((0.9, 0.91), (0.95, 0.96), CONTRADICTED, "-5.00 ± 0.00 points", ReasonKind.OPPOSITE),
        ((0.9, 0.91), (0.95, 0.85), OPEN, "+0.50 ± ", ReasonKind.ONE_CONTAINS_ZERO),
        # it loses less than elsewhere: no lead has grown
        ((0.7, 0.71), (0.6, 0.61), CONTRADICTED, "+10.00", ReasonKind.OPPOSITE),
    ],
)
def test_a_lead_larger_than_elsewhere(here, there, status, found, why):
    assert claim(LARGER, reported="larger").sources == ["f", "other"]
    told = larger(here, there, dataset="Mirror (copy)")
    assert (worded(told), whys(told)) == (
        status,
        [why, ReasonKind.COPIES],
    ) and told.our_value.startswith(found)
    assert told.reasons[1].values == {"data": "Mirror (copy)"}
    left_out = larger(here, there, skipped="too long")
    assert (worded(left_out), left_out.why) == (NOT_TESTED, "too long")
    assert whys(larger(here, there, lost={("FedMMD", 1): "diverged"})) == [ReasonKind.DIVERGED]
    lacking = larger(here, there[:1], baseline=(0.8,))
    assert whys(lacking)[0] == ReasonKind.UNPAIRED


def test_a_lead_elsewhere_is_in_the_same_measure():
    """4 points there and 10 here; the test accuracies are all the same."""
    here, there = (
        own(made({"FedMMD": seeds(ours, ends), "FedAvg": seeds((0.8, 0.81), ends)}))
        for ours in ((0.9, 0.91), (0.84, 0.85))
    )
    told = decide("k", claim(LARGER, reported="larger"), here, OWN, others=[there])
    assert told.our_value == "+6.00 ± 0.00 points (n = 2)"


def test_p_of_what_has_to_be_true_twice():
    """Of the less sure one where it agrees, of what is false where it fails; nothing that counts is
    asked of what is unsure."""

    def told(here: tuple, there: tuple) -> Verdict:
        return larger(here, there, baseline=(0.5,) * 3)

    agrees = told((0.6, 0.61, 0.62), (0.55, 0.54, 0.56))
    assert worded(agrees) == SUPPORTED
    assert agrees.p == pytest.approx(
        max(estimate([0.1, 0.11, 0.12]).p, estimate([0.05, 0.07, 0.06]).p)
    )
    fails = told((0.4, 0.41, 0.42), (0.3, 0.45, 0.41))
    assert worded(fails) == CONTRADICTED and fails.p == pytest.approx(
        2 * estimate([-0.1, -0.09, -0.08]).p
    )
    assert told((0.55, 0.55, 0.551), (0.3, 0.8, 0.55)).status == OPEN
    # a lead that would not count, but no interval around zero
    little = told((0.5005, 0.5005, 0.5006), (0.3, 0.8, 0.55))
    assert worded(little) == OPEN
    # the leads differ by the same in every seed, which has no p
    beside = told((0.4, 0.41, 0.42), (0.3, 0.31, 0.32))
    assert worded(beside) == CONTRADICTED and beside.p == fails.p
    assert told((0.4,) * 3, (0.3, 0.45, 0.41)).p == 0  # behind by the same in every seed
    # ahead by the same: not the less sure one's alone
    assert told((0.6,) * 3, (0.55, 0.54, 0.56)).p is None


@pytest.mark.parametrize(("ours", "baseline", "status"), [
    ((0.9,), (0.8,), OPEN),
    ((0.9, 0.91), (0.8, 0.81), SUPPORTED),
    ((0.8, 0.81), (0.9, 0.91), CONTRADICTED),
    ((0.9, 0.7), (0.8, 0.81), OPEN),
])  # fmt: skip
def test_what_is_asked_beside_the_paper_is_told_apart(ours, baseline, status):
    """Nothing is there to be reproduced, at whatever scale; a number of the paper's is, whoever
    asks."""
    for compare in ("full", "direction"):
        found = verdict(
            LAST,
            seeds(ours, ends),
            seeds(baseline, ends),
            compare,
            reported="higher",
            own_question=True,
        )
        assert (worded(found), found.reported) == (status, "nothing")
    asked = verdict(
        LAST,
        seeds((0.8, 0.81), ends),
        seeds((0.9, 0.91), ends),
        reported=0.05,
        tolerance=0.01,
        own_question=True,
    )
    assert (worded(asked), asked.reported) == (CONTRADICTED, "+5.0 points")


# ---- bytes

BYTES = {"kind": "bytes_overhead", "series": "FedMMD", "baseline": "FedAvg"}


@pytest.mark.parametrize(("down", "status"), [
    (3_000_000, "supported"), (2_999_000, "supported"), (2_200_000, "contradicted"),
])  # fmt: skip
def test_bytes_more_than_the_baselines(down, status):
    stated = claim(BYTES, reported=0.75, tolerance=0.01, because="counted")
    found = made({label: seeds((5, 5)) for label in ("FedMMD", "FedAvg")})
    for run in found.note["series"]["FedMMD"]["runs"]:
        run["bytes_down"] = down * run["rounds"]  # FedAvg: 1.5 and 0.5 million a round
    told = decide("key", stated, found, "test_accuracy")
    assert (worded(told), told.reported) == (status, "+75.0 %")
    assert told.our_value == f"{100 * ((down + 5e5) / 2e6 - 1):+.1f} ± 0.0 % (n = 2)"
    found.note["compare"] = "direction"
    assert decide("key", stated, found, "test_accuracy").status == NOT_TESTED  # whatever the sign


@pytest.mark.parametrize(
    ("rounds", "factor", "ours"),
    [
        # a series that trains half as long sends no less in a round
        ((20, 40), 1, "+0.0 ± 0.0 % (n = 2)"),
        (
            (20, 20),
            1.5,
            "+50.0 ± 0.0 % (n = 2)",
        ),  # twice as many in the second seed, of both series
    ],
)
def test_bytes_are_those_of_a_round_and_paired_by_seed(rounds, factor, ours):
    found = made(
        {
            label: dict.fromkeys((0, 1), ends(0.5, n))
            for label, n in zip(("FedMMD", "FedAvg"), rounds, strict=True)
        }
    )
    for label, times in (("FedMMD", factor), ("FedAvg", 1)):
        for run in found.runs(label):
            run |= {
                way: round(run[way] * times * (1 + run["seed"]))
                for way in ("bytes_down", "bytes_up")
            }
    stated = claim(BYTES, reported=0.5, tolerance=0.01, because="counted")
    assert decide("key", stated, found, "test_accuracy").our_value == ours


# ---- what our runs cannot speak of, and what is told beside


@pytest.mark.parametrize(
    ("tolerance", "told"), [(0.0055, "0.55"), (0.00665, "0.665"), (0.005, "0.5"), (0.0149, "1.49")]
)
def test_a_tolerance_is_told_in_full(tolerance, told):
    """Rounded to the digits of what is reported, it could equal a distance that is larger."""
    found = verdict(
        LAST,
        seeds((0.9,), ends),
        seeds((0.889,), ends),
        reported=0.011,
        tolerance=tolerance,
        because="b",
    )
    assert (
        found.tolerance == f"{told} points: b"
        and found.reasons[-1].values["allowed"] == f"{told} points"
    )


@pytest.mark.parametrize(
    ("cell", "curves", "reported", "compares", "needed"),
    [
        (ROUNDS, [{0: ends(0.5, 8)}], 10, ["full"], 12),
        (ROUNDS, [{0: ends(0.5, 20), 1: ends(0.5, 8)}], 10, ["full"], 12),  # the shortest
        ({"kind": "difference", "round": 10}, [{0: ends(0.5, 8)}] * 2, 0.1, ["full"], 10),
        (
            LAST | {"last": 10},
            [{0: ends(0.6, 8)}, {0: ends(0.5, 8)}],
            "higher",
            ["full", "direction"],
            10,
        ),
    ],
)
def test_runs_that_are_too_short_say_nothing(cell, curves, reported, compares, needed):
    for compare in compares:
        found = verdict(
            cell,
            *curves,
            compare=compare,
            reported=reported,
            tolerance=0 if isinstance(reported, str) else 2,
        )
        assert (worded(found), whys(found)) == (NOT_TESTED, [ReasonKind.ENDS_EARLY])
        assert found.reasons[0].values == {"end": 8, "needed": needed}


def test_not_run():
    stated = claim(ROUNDS | {"series": "a"}, reported=3)
    found = decide("key", stated, made({}, skipped=waits(2, 4)), "test_accuracy")
    assert (worded(found), found.why, found.our_value) == (NOT_TESTED, str(waits(2, 4)), "-")
    whole = made({label: seeds((0.9, 0.91), ends) for label in ("FedMMD", "FedAvg", "L2")})
    for here, there in ((whole, unfinished(whole, "FedAvg")), (unfinished(whole, "FedAvg"), whole)):
        found = decide(
            "key", claim(LARGER, reported="larger"), here, "test_accuracy", others=[there]
        )
        assert (worded(found), found.ours) == (NOT_TESTED, None) and "FedAvg" in found.why
    other = decide(
        "key",
        claim(LARGER, reported="larger"),
        unfinished(whole, "L2"),
        "test_accuracy",
        others=[whole],
    )
    assert worded(other) != NOT_TESTED


@pytest.mark.parametrize("label", ["FedMMD", "FedAvg"])
@pytest.mark.parametrize("compare", ["full", "direction"])
def test_one_of_several_seeds_diverged(label, compare):
    """The seeds that are left do not speak for the one that is lost."""
    curves, lost = (seeds((5, 5)), seeds((10, 10))), {(label, 1): "diverged at round 3"}
    found = verdict(SAVING, *curves, compare, lost, **HALF)
    assert (worded(found), found.our_value, whys(found)) == (OPEN, "-", [ReasonKind.DIVERGED])
    assert found.reasons[0].values["series"] == label
    if label == "FedMMD":
        for cell, reported in ((ROUNDS, 5), (NEVER, "never")):
            status = OPEN if compare == "full" else NOT_TESTED
            assert (
                worded(verdict(cell, curves[0], None, compare, lost, reported=reported)) == status
            )


@pytest.mark.parametrize("kind", [SAVING, LAST])
@pytest.mark.parametrize("compare", ["full", "direction"])
def test_a_seed_that_one_series_lacks(kind, compare):
    both, one = seeds((5, 5)), {0: arrives(10)}
    for curves, label in (((both, one), "FedAvg"), ((one, both), "FedMMD")):
        found = verdict(kind, *curves, compare, **HALF)
        assert (worded(found), whys(found)) == (NOT_TESTED, [ReasonKind.UNPAIRED])
        assert found.reasons[0].values == {"seed": 1, "series": label}


def test_a_measure_that_was_not_taken():
    found = made({"FedMMD": {0: arrives(3)}})
    found = Results(found.note, [row | {"personal_accuracy": ""} for row in found.rows])
    told = decide(
        "key", claim(ROUNDS | {"series": "FedMMD"}, reported=3), found, "personal_accuracy"
    )
    assert (worded(told), whys(told)) == (NOT_TESTED, [ReasonKind.UNMEASURED])


@pytest.mark.parametrize(("cell", "scaled", "found", "at"), [
    (SAVING | {"target": 0.9}, {"target": 0.4}, "33.3 ± 0.0 % (n = 2)", "at 40 % accuracy"),
    (LAST | {"last": None, "round": 9}, {"round": 2}, "+20.0 ± 0.0 points (n = 2)", "at round 2"),
    (LAST | {"last": 1}, {"last": 2}, "+15.0 ± 0.0 points (n = 2)", "over the last 2 rounds"),
])  # fmt: skip
def test_target_and_rounds_of_a_smaller_scale(cell, scaled, found, at):
    """The paper's own are out of reach there; at the paper's scale they are asked for."""
    baseline = [0.1, 0.2, 0.3, 0.5] if "target" in cell else [0.1, 0.2, 0.3]
    curves = dict.fromkeys((0, 1), [0.1, 0.3, 0.5]), dict.fromkeys((0, 1), baseline)
    stated = {"reported": 0.2, "tolerance": 0.1, "scales": {"small": scaled}}
    small = verdict(cell, *curves, "direction", **stated)
    assert (worded(small), small.our_value, small.condition) == (SUPPORTED, found, at)
    assert whys(small) == [ReasonKind.AS_CLAIMED, ReasonKind.AT] and small.reasons[1].values == {
        "text": at
    }
    assert verdict(cell, *curves, "full", **stated).our_value != found


@pytest.mark.parametrize(("cell", "value", "text", "gap"), [
    (ROUNDS, 260, "260 rounds", "260 rounds"),
    (ROUNDS, 259.96, "260 rounds", "260 rounds"),
    (ROUNDS, 1, "1 round", "1 round"),
    (SAVING | {"baseline": "b"}, 0.438, "43.8 %", "43.8 points"),
    (SAVING | {"baseline": "b"}, -0.0001, "0.0 %", "0.0 points"),
    (LAST | {"baseline": "b"}, -0.0924, "-9.2 points", "-9.2 points"),
    (LAST | {"baseline": "b"}, -0.0001, "+0.0 points", "0.0 points"),
    (NEVER, 0.987, "98.7 %", "98.7 points"),
    ({"kind": "epochs"}, 7, "7.0 epochs", "7.0 epochs"),
    ({"kind": "epochs", "baseline": "b"}, 0.1, "10.0 %", "10.0 points"),
    ({"kind": "worst_tenth"}, 0.1, "10.0 %", "10.0 points"),
    ({"kind": "spread", "baseline": "b"}, 0.1, "+10.0 points", "10.0 points"),
    ({"kind": "divergence", "baseline": "b"}, 0.5, "1.65 times", "1.65 times"),
])  # fmt: skip
def test_how_values_are_shown(cell, value, text, gap):
    unit = quantities.parse_quantity({"series": "a"} | cell, "test").unit(MEASURES["test_accuracy"])
    assert (unit.format(value), unit.format_distance(value)) == (text, gap)


# ---- settings that were chosen by what is claimed

LEVEL = {"reported": 10, "tolerance": 2}
AHEAD, BEHIND = seeds((0.9, 0.91), ends), seeds((0.8, 0.81), ends)


@pytest.mark.parametrize(
    ("cell", "curves", "chosen", "options", "status"),
    [
        (ROUNDS, [seeds((10, 10))], ["FedMMD"], LEVEL, NOT_TESTED),
        (ROUNDS, [seeds((10,))], ["FedMMD"], LEVEL, NOT_TESTED),
        # to be far from it even so counts
        (ROUNDS, [seeds((18, 18))], ["FedMMD"], LEVEL, CONTRADICTED),
        # the saving is not what was chosen
        (SAVING, [seeds((5, 5)), seeds((10, 10))], ["FedAvg"], HALF, SUPPORTED),
        (SAVING, [seeds((5,)), seeds((10,))], ["FedMMD", "FedAvg"], HALF, NOT_TESTED),
        (
            LAST,
            [AHEAD, BEHIND],
            ["FedMMD", "FedAvg"],
            {"compare": "direction", "reported": "higher"},
            NOT_TESTED,
        ),
        (
            LAST,
            [BEHIND, AHEAD],
            ["FedMMD", "FedAvg"],
            {"compare": "direction", "reported": "higher"},
            CONTRADICTED,
        ),
        (
            LAST,
            [BEHIND, AHEAD],
            ["FedMMD", "FedAvg"],
            {"compare": "direction", "reported": "higher", "own_question": True},
            CONTRADICTED,
        ),
    ],
)
def test_agreement_with_what_a_setting_was_chosen_by_is_none(cell, curves, chosen, options, status):
    found = verdict(cell, *curves, calibrations=dict.fromkeys(chosen, "its curve"), **options)
    assert (worded(found), whys(found)[-1]) == (status, ReasonKind.CALIBRATED)
    assert found.reasons[-1].values == {"series": chosen[-1], "text": "its curve"}


def test_what_is_not_compared_is_not_calibrated():
    cell = {"kind": "difference", "round": 90}
    found = verdict(
        cell, seeds((5,)), seeds((10,)), calibrations={"FedAvg": "its curve"}, reported=1
    )
    assert worded(found) == NOT_TESTED and ReasonKind.CALIBRATED not in whys(found)


def changed(**changes) -> dict:
    values = json.loads(json.dumps(SPEC))
    (values["claims"]["saves"] if "claims" not in changes else values).update(changes)
    return values


TRIED = {"reported": {"conv": "c:none", "multi": "c:none"}}
ONCE = {"measure": "personal_accuracy", "target": {"paper": 0.9}, "reported": {"FedAvg": "c:none"}}


DIGITISED = {"curves_from": "read from it"}


def calibrated(tmp_path, **tried) -> spec.Paper:
    values = changed() | {
        "curves_from": "read from it",
        "experiments": {"first": ONCE, "second": TRIED | tried},
    }
    return read(tmp_path, values)


def test_a_calibration_reaches_every_claim_on_its_curve(tmp_path):
    """Whoever adds a claim need not think of it; and settings tried against one curve have to say
    what they chose."""
    with pytest.raises(UserError, match="experiments.second: calibrated_on: .*c:none"):
        calibrated(tmp_path)
    paper = calibrated(tmp_path, calibrated_on="the rate")
    claim = paper.claims["saves"]
    assert paper.calibrations_of(claim) == {
        "FedAvg": "its curve in the paper was used to choose the rate (second)"
    }
    # its curve is in another measure
    assert paper.calibrations_of(claim.model_copy(update={"measure": "test_accuracy"})) == {}
    denied = calibrated(tmp_path, calibrated_on=False)
    assert denied.calibrations_of(claim) == {}
    tried = {
        "first": ONCE | {"calibrated_on": "the network"},
        "second": TRIED | {"calibrated_on": "the rate"},
    }
    both = read(tmp_path, changed() | DIGITISED | {"experiments": tried}).calibrations_of(claim)[
        "FedAvg"
    ]
    # neither takes the other's place
    assert "the network (first)" in both and "the rate (second)" in both
    with pytest.raises(UserError, match="artifacts.yaml: curves_from: "):
        read(tmp_path, changed() | {"experiments": tried})
    same = [spec.spec_digest(one) for one in (paper, denied)]
    assert same[0] != same[1]


# ---- what is written


def test_a_group_of_claims_shares_its_defaults():
    """A claim's own value wins, key by key, and the order is that of the file, as the pages and
    ties of p-values need it."""
    shared = {
        "source": "s",
        "experiment": "f",
        "reported": "higher",
        "quantity": LAST | {"baseline": "c"},
    }
    first, second = ({"text": "t", "quantity": {"series": label}} for label in ("a", "b"))
    inner = {
        "defaults": {"source": "inner", "quantity": {"last": 2}},
        "z": second,
        "y": second | {"source": "own"},
    }
    group = {"defaults": shared, "x": first, "h": inner, "w": first}
    single = shared | {"text": "t", "quantity": LAST | {"series": "a", "baseline": "c"}}
    found = claims.parse_claims({"two": single, "g": group, "one": single}, "p")
    assert list(found) == ["two", "x", "z", "y", "w", "one"]
    assert found["two"] == found["x"] == found["w"] == claims.parse_claim(single, "p")
    own = single | {"quantity": {"kind": "difference", "last": 2, "series": "b", "baseline": "c"}}
    assert found["y"] == claims.parse_claim(own | {"source": "own"}, "p")
    assert found["z"] == claims.parse_claim(own | {"source": "inner"}, "p")


SAVES = SPEC["claims"]["saves"]


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        (
            {"defaults": {"sources": "s"}, "saves": SAVES},
            "claims.yaml: saves: sources: unknown key: choose from artifact, because",
        ),
        (
            {"defaults": {"quantity": {"lats": 5}}, "saves": SAVES},
            "claims.yaml: saves.quantity: lats: unknown key",
        ),
        (
            {"defaults": {}, "saves": SAVES | {"text": None}},
            "claims.yaml: saves: text: Input should be a valid string",
        ),
        (
            {"defaults": ["source"], "saves": SAVES},
            "claims.yaml: g: defaults: expected the keys that claims share, with values.",
        ),
        (
            {"defaults": {}, "saves": SAVES, "h": {"defaults": {}, "saves": SAVES}},
            "claims.yaml: saves: two claims have this name.",
        ),
        ({"defaults": {}, "saves": 3}, "claims.yaml: saves: Input should be a valid dictionary"),
    ],
)
def test_a_mistake_in_a_group_is_told_with_the_claim(group, problem):
    with pytest.raises(UserError) as told:
        claims.parse_claims({"g": group}, "claims.yaml")
    assert str(told.value).startswith(problem)


def test_tallies(tmp_path):
    records = [
        record(verdict=status)
        for status in ("not tested", "supported", "open", "supported", "not tested")
    ]
    assert list(summary.tally(records).items()) == [
        ("supported", 2),
        ("open", 1),
        ("not tested", 2),
    ]
    assert (
        summary.format_counts(summary.tally(records))
        == summary.summary(records)
        == "2 supported, 1 open, 2 not tested"
    )
    own = [record(verdict="open", lean="for", by="us")]
    assert (
        own[0].words == "open, leans for"
        and own[0].css_class == "lean"
        and records[0].css_class == "not-tested"
    )
    assert (
        summary.summary(records + own) == "2 supported, 1 open, 2 not tested; asked by us: 1 open"
    )
    assert summary.summary(own) == "asked by us: 1 open" and summary.summary([]) == "no verdicts"
    assert summary.claimed_by(records + own, summary.US) == own
    assert summary.read_verdicts(tmp_path) == [] and summary.format_counts({}) == "no verdicts"


@pytest.mark.parametrize(("verdict", "lean", "p_holm", "final"), [
    ("supported", "for", 0.05, "supported"),
    ("supported", "for", 0.0501, "open, leans for"),
    ("contradicted", "against", 0.2, "open, leans against"),
    ("contradicted", "", 0.2, "contradicted"),  # below the smallest lead that counts
    ("open", "for", 0.01, "open, leans for"),  # of another size
    ("supported", "for", None, "supported"),  # a value, or the same difference in all seeds
])  # fmt: skip
def test_what_rests_on_the_side_of_zero_must_survive_holm(verdict, lean, p_holm, final):
    found = after_holm(record(verdict=verdict, lean=lean, why="because"), p_holm)
    assert (found.words, found.p_holm) == (final, p_holm)
    assert (found.why == "because") == (verdict == found.verdict or found.verdict != "open")


def test_a_headline_without_an_answer_counts_as_one_more_test():
    """0.02 of three headlines is 0.06 while one of them has no p, also if another has 0.001, and
    0.04 then; the others are a family of their own."""
    one = replace(record(verdict="supported", lean="for", p=0.02, mean=1.0), key="a")
    others = [replace(record(), key="b"), replace(record(p=0.001, mean=2.0), key="c")]
    own = replace(record(verdict="supported", lean="for", p=0.04, mean=3.0), key="d")
    for rest, p, word in (
        ([others[0], replace(others[0], key="c")], 0.06, "open, leans for"),
        (others, 0.04, "supported"),
    ):
        found = corrected([one, *rest, own], ["a", "b", "c"])
        assert (found[0].p_holm, found[0].words) == (pytest.approx(p), word)
        assert found[1].p_holm is None and found[-1].words == "supported"


def test_a_sign_that_changes_on_the_way_is_not_asked_of_shorter_runs():
    method, baseline = seeds((0.59, 0.591), ends), seeds((0.5, 0.5), ends)

    def told(compare: str, held: float | None) -> Verdict:
        return verdict(LAST, method, baseline, compare, sign_share=held, reported=0.09)

    assert [told("direction", held).status for held in (None, 1, 0.9)] == ["supported"] * 3
    short = told("direction", 0.89)
    assert (worded(short), whys(short), short.reasons[0].values) == (
        NOT_TESTED,
        [ReasonKind.UNSTEADY],
        {"percent": "89"},
    )
    assert short.our_value == "+9.0 ± 0.6 points (n = 2)" and short.p is None
    assert worded(told("full", 0.4)) == "open, leans for"  # as long as the paper's; tolerance 0


def test_how_often_the_papers_own_curves_have_a_claimed_sign(tmp_path):
    """`conv` above `none` in rounds 2 and 4 of the four that both have."""
    curves = {
        "5:conv": [(1, 0.1), (2, 0.3), (3, 0.2), (4, 0.5)],
        "5:none": [(1, 0.2), (2, 0.2), (3, 0.2), (4, 0.4), (5, 0.9)],
    }
    shown = DisplayOptions(reported={"conv": "5:conv", "none": "5:none"})

    def held(cell: dict, reported: float | str, shown: DisplayOptions = shown) -> float | None:
        return paper_curves.sign_share({"f": shown}, claim(cell, reported=reported), curves)

    ends = {"kind": "difference", "series": "conv", "baseline": "none", "last": 5}
    assert held(ends, 0.1) == 0.5 and held(ends, -0.1) == 0.25
    assert (
        held(ends, 0)
        is held(ends, 0.1, DisplayOptions())
        is held({**ends, "last": None, "round": 2}, 0.1)
        is None
    )
    assert held(ends, "higher") is None


def test_a_scale_that_cannot_speak_of_a_claim_says_why():
    stated = {"reported": 0.09, "not_testable_at": {"small": "one round only"}}
    method, baseline = seeds((0.59, 0.591), ends), seeds((0.5, 0.5), ends)
    told = verdict(LAST, method, baseline, "direction", **stated)
    assert (worded(told), told.why) == ("not tested", "one round only")
    assert worded(verdict(LAST, method, baseline, **stated)) == "open, leans for"


def test_a_precise_difference_below_the_least_contradicts_a_headline():
    """Of a reported lead of 9 points: 1 +- 3.0 lies below 4.5, 2.5 +- 3.0 does not; and 10 has the
    sign, whatever its size."""
    stated = {"reported": 0.09, "headline": "FedMMD", "tolerance": 0.045, "because": "half"}
    baseline = seeds((0.5, 0.5, 0.5), ends)
    for lead, least, status, kind in (
        (0.01, 0.045, "contradicted", ReasonKind.BELOW_LEAST),
        (0.01, None, "open", ReasonKind.EXCLUDES_REPORTED),
        (0.025, 0.045, "open", ReasonKind.CONTAINS_ZERO),
        (0.10, 0.045, "supported", ReasonKind.CONTAINS_REPORTED),
    ):
        method = seeds((0.5 + lead - 0.012, 0.5 + lead, 0.5 + lead + 0.012), ends)
        found = verdict(LAST, method, baseline, "direction", least=least, **stated)
        assert worded(found) == status and kind in whys(found), (lead, found)
    with pytest.raises(UserError, match="least: "):
        claim(
            {"kind": "difference", "series": "FedMMD", "baseline": "FedAvg", **LAST},
            least=0.1,
            **stated,
        )


def test_the_note_on_many_tests_counts_each_test_once():
    """Tested, with an interval without zero, left when corrected together; two claims on one test
    count once."""
    ps = [(0.01, 0.04), (0.04, 0.08), (0.03, 0.09), (0.2, 0.2), (None, None)]
    records = [
        record(p=p, p_holm=after, mean=place, half_width=1.0, seeds=3)
        for place, (p, after) in enumerate(ps)
    ]
    note = summary.multiple_testing_note([*records, *records[:1]])
    assert [int(number) for number in re.findall(r"(?:zero|Holm\)): (\d+)", note)] == [
        4,
        3,
        1,
    ] and "at most 0.2" in note
    assert not summary.multiple_testing_note(records[4:])


def test_an_open_difference_says_how_many_seeds_would_show_it():
    """Savings of 50 and 10 %, s.d. 0.283: 50 % is 1.77 deviations, which takes 5 seeds, 5 % takes
    254; 0.004 % over 1000. Of ten seeds, half of them with 50 % and half with -10 %, the s.d. is
    0.316: 50 % would have shown."""
    for compare in ("full", "direction"):
        for reported, needed, text in (
            (0.5, 5, "about 5"),
            (0.05, 254, "about 254"),
            (0.00004, 1001, "over 1000"),
        ):
            found = verdict(
                SAVING, seeds((5, 9)), seeds((10, 10)), compare, reported=reported, tolerance=0.1
            )
            assert (worded(found), found.seeds_needed) == (
                OPEN,
                needed,
            ) and ReasonKind.CONTAINS_ZERO in whys(found)
            assert {"seeds": text} in [
                one.values for one in found.reasons if one.kind == ReasonKind.SEEDS_NEEDED
            ]
    many = verdict(SAVING, seeds((5, 11) * 5), seeds((10, 10) * 5), "direction", reported=0.5)
    assert many.seeds_needed <= 10 and ReasonKind.POWERED in whys(many)
    # no difference is reported
    assert verdict(ROUNDS, seeds((5, 9)), reported=10, tolerance=2).seeds_needed is None
    assert verdict(SAVING, seeds((5,)), seeds((10,)), **HALF).seeds_needed is None


def test_each_p_corrected_together_by_hand():
    """Sorted 0.01, 0.03, 0.04, times 3, 2, 1: 0.03, 0.06, 0.04; none is below one before it."""
    records = [
        record(p=p, mean=place, half_width=1.0, seeds=3)
        for place, p in enumerate([0.04, 0.01, None, 0.03])
    ]
    found = holm(summary.distinct_tests([*records, *records[:1]]))
    assert [found.get(one.test) for one in records] == pytest.approx([0.06, 0.03, None, 0.06])
    twice = summary.distinct_tests([replace(one, p=0.6) for one in records[:2]])
    assert holm(twice) == {(0, 1.0, 3, 0.6): 1, (1, 1.0, 3, 0.6): 1}


def test_p_by_hand():
    """Two seeds: t has one degree of freedom, a Cauchy; P(|t| > 1) = 1/2. What is counted has
    none."""
    assert estimate([0.0, 2.0]).p == pytest.approx(0.5) and estimate([1.0]).p is None
    assert estimate([1.0, 1.0]).p is None and estimate([0.0, 0.0]).p == 1
    for values in ([0.02, 0.05, 0.03], [-0.2, 0.05, 0.01]):
        assert (estimate(values).p < 0.05) == (estimate(values).side() != 0)
    method, baseline = seeds((0.6, 0.62), ends), seeds((0.5, 0.5), ends)
    assert verdict(LAST, method, baseline, reported=0.09).p == pytest.approx(
        estimate([0.1, 0.12]).p
    )
    # that there is none is no claim of one
    assert verdict(LAST, method, baseline, reported=0).p is None
    assert verdict(ROUNDS, seeds((10, 11)), reported=10, tolerance=2).p is None
