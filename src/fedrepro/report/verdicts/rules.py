"""The statuses of verdicts, their meanings, and the rules by which a status follows from the values of a quantity."""

import math
from collections.abc import Sequence
from enum import StrEnum

from fedrepro.core.metrics import Measure
from fedrepro.report.inference import is_equivalent, prediction_half_width, welch_half_width
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import SCORE_NAMES, format_target
from fedrepro.report.quantities.base import Expected, Quantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import EPSILON, MAX_SEEDS, POWER, Estimate, estimate
from fedrepro.report.verdicts.claim import Claim


class Status(StrEnum):
    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    AGREES = "direction agrees"
    DISAGREES = "direction disagrees"
    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    CALIBRATED = "calibrated on this"
    NOT_COMPARED = "not compared"
    NOT_RUN = "not run"


UNJUDGED = (Status.NOT_COMPARED, Status.NOT_RUN)
Judged = tuple[Status, list[Reason]]

SPREAD = (
    "± is half of the 95 % interval of the mean over n seeds (Student's t); for a difference or a saving, of its mean over "
    "pairs of runs with the same seed. Over several panels, a seed counts once, with its mean over them; seeds that a panel "
    "lacks are left out. A single seed has no interval. The interval covers what a seed draws: partition, initial weights, "
    "batches. It does not cover which images a scale uses: they are the same for all seeds. Each claim is judged by itself; "
    "pages mark those whose difference remains significant at 5 % when all tests of the paper at the scale are corrected "
    "(Holm). Standard deviations are marked s.d."
)
NO_LEAD = "0.04 in log odds (1 point at an accuracy of 50 %, 0.36 at 90 %, 0.04 at 99 %)"
MINIMUM_SIGN_SHARE = 0.9  # of the rounds of a paper's own curves must have the claimed sign, so that shorter runs can test it
NONE_REPORTED = "nothing"  # the reported value of our own questions
OWN_QUESTION_STATUS = {
    Status.REPRODUCED: Status.HOLDS,
    Status.AGREES: Status.HOLDS,
    Status.NOT: Status.FAILS,
    Status.DISAGREES: Status.FAILS,
}
NO_CLAIM = "Numbers at this scale are not compared with the papers, so no claim is judged."
NONE_LISTED = "No claim of this paper is listed, so none is judged."
RULES = {
    Status.REPRODUCED: "The whole 90 % interval lies within the tolerance around the reported value (two one-sided tests at "
    "5 %). For a difference, the 95 % interval also excludes zero, and the tolerance is at most half of the difference.",
    Status.PARTLY: "For a difference, only the direction is reproduced: the whole interval has the reported sign, but does not "
    "lie within the tolerance, or the tolerance is wider than half of the difference. Also if only one of two series reaches "
    "the target, as claimed.",
    Status.NOT: "The reported value is further away than tolerance and chance explain together: outside the tolerance plus "
    "half of the 95 % interval of one more run of ours or, if the paper gives a standard deviation, of the difference of both "
    "means (Welch). For a difference: the same, and our interval contains zero; or our interval has the opposite sign. If only "
    f"a direction is claimed, also if our interval contains zero and the 90 % interval ends below {NO_LEAD}, since a smaller "
    "lead counts as none.",
    Status.AGREES: "At a scale where only directions are judged: the whole interval has the reported sign.",
    Status.DISAGREES: "At such a scale: the whole interval has the opposite sign.",
    Status.HOLDS: "A question of our own, on which the paper reports nothing: the whole interval has the sign that the "
    "question names.",
    Status.FAILS: "A question of our own: the whole interval has the opposite sign or, unless only directions are judged, "
    f"contains zero while the 90 % interval ends below {NO_LEAD}.",
    Status.UNDECIDED: "There is only one seed, a run diverged, or some seeds do not reach the target; or our runs do not "
    "decide whether the value lies within the tolerance or, for a difference, which sign it has. More seeds would decide. "
    "If the paper reports a difference, the page says how many seeds would detect one of that size in "
    f"{100 * POWER:.0f} % of tries, given the standard deviation of our seeds; with few seeds this is a rough estimate.",
    Status.CALIBRATED: "The reported value was used to choose one of our settings, so agreement shows nothing.",
    Status.NOT_COMPARED: "Our runs cannot test the claim: they are too short, or made at a scale where the number means "
    "something else, or a network predicts a single class.",
    Status.NOT_RUN: "The runs are not finished, or left out at this scale.",
}


def not_testable(claim: Claim, quantity: Quantity, view: ExperimentView, sign_share: float | None) -> list[Reason]:
    """Return the reasons why our runs cannot test the claim, whatever their numbers; empty if they can.

    `sign_share`: the share of rounds in which the paper's own curves have the claimed sign, None if unknown.
    """
    if text := view.results.at_scale(claim.not_testable_at):
        return [make_reason(ReasonKind.NOT_TESTABLE, text=text)]
    needed = getattr(quantity, "last", None) or (
        quantity.rounds_needed(claim.reported, claim.tolerance) if view.comparable else 0
    )
    ends = [curve[-1][0] for curve in view.curves(quantity.series).values()] if needed else []
    if ends and min(ends) < needed:  # e.g. after the number of rounds was lowered
        return [make_reason(ReasonKind.ENDS_EARLY, end=min(ends), needed=needed)]
    if not view.comparable:
        if not quantity.contrast:
            return [make_reason(ReasonKind.PAPER_ONLY)]
        if claim.reported == 0:
            return [make_reason(ReasonKind.NO_SIGN)]
        if sign_share is not None and sign_share < MINIMUM_SIGN_SHARE:
            return [make_reason(ReasonKind.UNSTEADY, percent=f"{100 * sign_share:.0f}")]
    return [] if quantity.diverged(view) else quantity.missing(view)


def judge(
    claim: Claim,
    quantity: Quantity,
    view: ExperimentView,
    contrasts: Sequence[Estimate],
    ours: Estimate | None,
    reasons: list[Reason],
) -> Judged:
    """Return the status of a claim and the reasons for it.

    Args:
        contrasts: the differences that must have the expected sign; empty if the claim reports a number.
        ours: our mean over seeds; None if a seed has no value.
        reasons: why a seed has no value.
    """
    if quantity.diverged(view):
        return Status.UNDECIDED, reasons
    if ours is None:
        status, more = _judge_missed_target(claim, quantity, view)
        return status, reasons + more
    if claim.expected:
        return _judge_word(claim.expected, quantity, view, contrasts)
    return (
        _judge_number(claim, ours, view.measure) if view.comparable else _judge_direction(claim, quantity, ours, view.measure)
    )


def _judge_missed_target(claim: Claim, quantity: Quantity, view: ExperimentView) -> Judged:
    """Judge a claim if some seeds miss the target: the best values of each series show whether it reaches the target."""
    margins = [quantity.target_margins(view, label) for label in quantity.labels]
    if not view.comparable and all(max(seeds) < -EPSILON for seeds in margins):
        return Status.NOT_COMPARED, []  # the target is out of reach at this scale
    if claim.expected:  # a comparison of two savings
        return Status.UNDECIDED, []
    sides = [estimate(seeds).side() for seeds in margins]
    if 0 in sides:
        return Status.UNDECIDED, [make_reason(ReasonKind.ONE_SEED)] if 1 in map(len, margins) else []
    if len(sides) == 1 or sides == [-1, -1]:
        return (Status.NOT if sides[0] < 0 else Status.UNDECIDED), []
    if sides == [1, 1]:
        return Status.UNDECIDED, []
    agrees = sides[0] * claim.reported_number > 0
    return _signed_status(view.comparable, agrees, Status.PARTLY), []


def _signed_status(full: bool, agrees: bool, agreeing: Status) -> Status:
    """Return the status of a claim whose direction is decided; `agreeing`: its status if it agrees and sizes are compared."""
    if full:
        return agreeing if agrees else Status.NOT
    return Status.AGREES if agrees else Status.DISAGREES


def _judge_word(expected: Expected, quantity: Quantity, view: ExperimentView, contrasts: Sequence[Estimate]) -> Judged:
    """Judge a claim that reports a word: it is true if all contrasts have the expected sign, false if one has the opposite."""
    if contrasts[0].n == 1:
        return Status.UNDECIDED, [make_reason(ReasonKind.ONE_SEED)]
    sides = [contrast.side() * expected.sign for contrast in contrasts]
    if -1 in sides:
        return _signed_status(view.comparable, False, Status.NOT), [make_reason(ReasonKind.OPPOSITE)]
    if 0 not in sides:
        return _signed_status(view.comparable, True, Status.REPRODUCED), [make_reason(ReasonKind.AS_CLAIMED)]
    if view.comparable and expected.is_lead:
        minimum = quantity.minimum_lead(view)
        if contrasts[0].upper(0.95) < minimum - EPSILON:
            text = quantity.unit(view.measure).format_distance(minimum, 2)
            return Status.NOT, [make_reason(ReasonKind.NO_LEAD, least=text)]
    return Status.UNDECIDED, [make_reason(ReasonKind.CONTAINS_ZERO if len(contrasts) == 1 else ReasonKind.ONE_CONTAINS_ZERO)]


def _judge_direction(claim: Claim, quantity: Quantity, ours: Estimate, measure: Measure) -> Judged:
    text = condition(claim, quantity, measure)
    reasons = [make_reason(ReasonKind.SIGN_ONLY), *([make_reason(ReasonKind.AT, text=text)] if text else [])]
    side = ours.side()
    if claim.headline and ours.n > 1:  # the second question of a protocol: the size
        inside = ours.side(claim.reported_number) == 0
        text = quantity.unit(measure).format(claim.reported_number, decimals(claim, measure))
        reasons.append(make_reason(ReasonKind.CONTAINS_REPORTED if inside else ReasonKind.EXCLUDES_REPORTED, reported=text))
    if side == 0 and claim.least and ours.high is not None and ours.high < claim.least - EPSILON:
        least = quantity.unit(measure).format_distance(claim.least, 1)
        return Status.DISAGREES, [*reasons, make_reason(ReasonKind.BELOW_LEAST, least=least)]
    if side == 0:
        several = [make_reason(ReasonKind.CONTAINS_ZERO), _power_reason(claim, ours)] if ours.n > 1 else []
        return Status.UNDECIDED, reasons + (several or [make_reason(ReasonKind.ONE_SEED)])
    return _signed_status(False, side * claim.reported_number > 0, Status.AGREES), reasons


def condition(claim: Claim, quantity: Quantity, measure: Measure) -> str:
    """Return the target of a claim's quantity, and its rounds if they differ from the paper's, as a phrase; empty for none."""
    target = getattr(quantity, "target", None)
    parts = [f"at {format_target(measure, target)} {SCORE_NAMES[measure.score]}"] if target else []
    if quantity == claim.quantity:
        return ", ".join(parts)
    if last := getattr(quantity, "last", None):
        parts.append(f"over the last {last} rounds")
    if round := getattr(quantity, "round", None):
        smooth = getattr(quantity, "smooth", 1)
        window = f"as the mean of what was measured in the {smooth} rounds up to round {round}"
        parts.append(window if smooth > 1 else f"at round {round}")
    return ", ".join(parts)


def _judge_number(claim: Claim, ours: Estimate, measure: Measure) -> Judged:
    distances = {"gap": abs(ours.mean - claim.reported_number), "allowed": claim.allowed(ours.n)}
    texts = {name: distance_text(claim, distance, measure, ours.n) for name, distance in distances.items()}
    distance = [make_reason(ReasonKind.DISTANCE, **texts)]
    if ours.n == 1:
        return Status.UNDECIDED, [*distance, make_reason(ReasonKind.ONE_SEED)]
    judge = _judge_difference if claim.quantity.contrast and claim.reported != 0 else _judge_level
    status, reasons = judge(claim, ours)
    return status, reasons + distance


def decimals(claim: Claim, measure: Measure) -> int:
    """Return the decimals of the reported and of our value: 2, or 1 for a difference that is reported with at most one."""
    one = claim.quantity.contrast and not claim.expected and _point_decimals(claim.reported_number, 1, 2) == 1
    return 1 if one else 2


def _point_decimals(value: float, *options: int) -> int:
    """Return the first of some numbers of decimals that shows a value, in points, in full; else the last."""
    return next((digits for digits in options if math.isclose(round(100 * value, digits), 100 * value)), options[-1])


def distance_text(claim: Claim, value: float, measure: Measure, seeds: int) -> str:
    """Format a distance of a mean over `seeds` from the reported value. It has at least the decimals of the tolerance, so that
    rounding never makes a distance look allowed that is not."""
    digits = max(decimals(claim, measure), _point_decimals(claim.allowed(seeds), 1, 2, 3))
    return claim.quantity.unit(measure).format_distance(value, digits)


def _judge_difference(claim: Claim, ours: Estimate) -> Judged:
    """Judge a reported difference other than zero: first its sign, then its size."""
    reported, tolerance, side = claim.reported_number, claim.allowed(ours.n), ours.side()
    if side == 0:
        if _is_outside(claim, ours):
            return Status.NOT, [make_reason(ReasonKind.NONE_AS_LARGE)]
        return Status.UNDECIDED, [make_reason(ReasonKind.CONTAINS_ZERO), _power_reason(claim, ours)]
    if side * reported < 0:
        return Status.NOT, [make_reason(ReasonKind.OPPOSITE)]
    if tolerance > abs(reported) / 2 + EPSILON:
        return Status.PARTLY, [make_reason(ReasonKind.WIDE_TOLERANCE)]
    if is_equivalent(ours, tolerance, around=reported):
        return Status.REPRODUCED, []
    close = abs(ours.mean - reported) <= tolerance + EPSILON
    return Status.PARTLY, [make_reason(ReasonKind.BEYOND_TOLERANCE if close else ReasonKind.DIRECTION)]


def _power_reason(claim: Claim, ours: Estimate) -> Reason:
    needed = ours.seeds_needed(claim.reported_number)
    assert needed is not None  # there are several seeds
    if needed <= ours.n:
        return make_reason(ReasonKind.POWERED, seeds=ours.n)
    return make_reason(ReasonKind.SEEDS_NEEDED, seeds=f"over {MAX_SEEDS}" if needed > MAX_SEEDS else f"about {needed}")


def _judge_level(claim: Claim, ours: Estimate) -> Judged:
    if is_equivalent(ours, claim.allowed(ours.n), around=claim.reported_number):
        return Status.REPRODUCED, []
    if _is_outside(claim, ours):
        return Status.NOT, []
    return Status.UNDECIDED, [make_reason(ReasonKind.OVER_EDGE)]


def _is_outside(claim: Claim, ours: Estimate) -> bool:
    """Return whether the reported value is further away than tolerance and chance explain.

    A reported value is compared with one more run of ours or, if it is a mean with a standard deviation, with our mean.
    """
    if claim.reported_std is not None and claim.reported_runs is not None:
        reach = welch_half_width(ours, claim.reported_std, claim.reported_runs)
    else:
        reach = prediction_half_width(ours)
    return reach is not None and abs(ours.mean - claim.reported_number) > claim.allowed(ours.n) + reach + EPSILON


def seeds_needed(claim: Claim, ours: Estimate | None) -> int | None:
    """Return how many seeds would detect a difference of the reported size, given the standard deviation of our seeds; None
    for a single seed, and if the paper reports no such number."""
    if ours is None or not claim.quantity.contrast or claim.expected or not claim.reported:
        return None
    return ours.seeds_needed(claim.reported_number)


def p_value(claim: Claim, quantity: Quantity, contrasts: Sequence[Estimate], ours: Estimate, comparable: bool) -> float | None:
    """Return the p-value of no difference; None if the claim is not about a difference, or about one below a slack.

    If a claim needs several differences: their largest p-value, or if some have the opposite sign, the smallest p-value of
    these times the number of differences (Bonferroni).
    """
    expected = claim.expected
    if not quantity.contrast or claim.reported == 0:
        return None
    if not expected:
        return ours.p
    if comparable and not expected.tested:
        return None
    opposite = [contrast.p or 0 for contrast in contrasts if contrast.side() == -expected.sign]
    if opposite:
        return min(1.0, len(contrasts) * min(opposite))
    tested = [contrast.p for contrast in contrasts if contrast.p is not None]
    return max(tested) if len(tested) == len(contrasts) else None
