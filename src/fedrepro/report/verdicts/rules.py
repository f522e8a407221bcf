"""The words of verdicts, their meanings, and the rules by which a word follows from the values of a
quantity."""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import SCORE_NAMES, format_target
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import EPSILON, MAX_SEEDS, Estimate, estimate
from fedrepro.report.verdicts.claim import Claim


class Status(StrEnum):
    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    NOT_TESTED = "not tested"


FOR, AGAINST = "for", "against"  # values of `lean`
# status, lean (empty unless the status rests on the side of zero), reasons
Judged = tuple[Status, str, list[Reason]]

SPREAD = (
    "± is half of the 95 % interval of the mean over n seeds (Student's t); for a difference or a "
    "saving, of its mean over pairs of runs with the same seed. Over several panels, a seed counts "
    "once, with its mean over them; seeds that a panel lacks are left out. A single seed has no "
    "interval. The interval covers what a seed draws: partition, initial weights, batches. It does "
    "not cover which images a scale uses: they are the same for all seeds. Standard deviations are "
    "marked s.d."
)
# of the rounds of a paper's own curves must have the claimed sign, so that shorter runs can test it
MINIMUM_SIGN_SHARE = 0.9
NONE_REPORTED = "nothing"  # the reported value of our own questions
NO_CLAIM = "Numbers at this scale are not compared with the papers, so no claim is judged."
NONE_LISTED = "No claim of this paper is listed, so none is judged."
RULES = {
    Status.SUPPORTED: "A difference: the whole interval lies on the claimed side of zero, also "
    "after Holm's correction. Where sizes are compared, it also lies within the tolerance around "
    "the reported number, and the tolerance is at most half of that number. A value: the whole "
    "interval lies within the tolerance or, if the claim names a bound, on its side.",
    Status.CONTRADICTED: "The whole interval lies on the other side of zero, also after Holm's "
    "correction, or of the bound; or it lies below the smallest lead that counts; or the reported "
    "number is further away than tolerance and chance explain. A difference whose interval lies "
    "on the claimed side of zero is never contradicted. Also if no seed reaches a target that the "
    "paper reaches.",
    Status.OPEN: "Neither of these; more seeds would decide. Always with one seed, if a run "
    "diverged, or if some seeds miss a target. It leans for or against the claim if the interval "
    "excludes zero, but not after Holm's correction; if the direction is as claimed, but not the "
    "size; or if only one of two series reaches the target.",
    Status.NOT_TESTED: "The runs are not finished, too short, or made at a scale where the number "
    "means something else; a network predicts a single class; or the reported value was used to "
    "choose our settings, and does not disagree.",
}


def not_testable(
    claim: Claim, quantity: Quantity, view: ExperimentView, sign_share: float | None
) -> list[Reason]:
    """Return the reasons why our runs cannot test the claim, whatever their numbers; empty if they
    can.

    `sign_share`: the share of rounds in which the paper's own curves have the claimed sign, None if
    unknown.
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
    """Return the status of a claim before Holm's correction, the side of zero that it rests on, and
    the reasons.

    Args:
        contrasts: the differences that must have the claimed sign, turned so that it is positive;
            empty for a value.
        ours: our mean over seeds; None if a seed has no value.
        reasons: why a seed has no value.
    """
    if quantity.diverged(view):
        return Status.OPEN, "", reasons
    if ours is None:
        status, lean, more = _judge_missed_target(claim, quantity, view)
        return status, lean, reasons + more
    remarks = _remarks(claim, quantity, ours, view)
    if ours.half_width is None:
        return Status.OPEN, "", [make_reason(ReasonKind.ONE_SEED), *remarks]
    status, lean, why = _judge_interval(claim, quantity, view, contrasts, ours)
    return status, lean, why + remarks


def _judge_interval(
    claim: Claim,
    quantity: Quantity,
    view: ExperimentView,
    contrasts: Sequence[Estimate],
    ours: Estimate,
) -> Judged:
    """Judge a claim by the intervals of its contrasts and, where sizes are compared, by the
    distance from what is reported."""
    sides = [contrast.side() for contrast in contrasts]
    sized, reported = (
        view.comparable and not claim.expected,
        0.0 if claim.expected else claim.reported_number,
    )
    gap, allowed, half = abs(ours.mean - reported), claim.allowed(ours.n), ours.half_width or 0.0
    is_inside = sized and gap + half <= allowed + EPSILON
    if sides and min(sides) > 0:
        if not sized or (is_inside and allowed <= abs(reported) / 2 + EPSILON):
            return Status.SUPPORTED, FOR, [make_reason(ReasonKind.AS_CLAIMED)]
        return (
            Status.OPEN,
            FOR,
            [make_reason(ReasonKind.WIDE_TOLERANCE if is_inside else ReasonKind.BEYOND_TOLERANCE)],
        )
    opposite = [make_reason(ReasonKind.OPPOSITE)] if -1 in sides else []
    least = _smallest_lead(claim, quantity, view)
    if least and (contrasts[0].high or 0.0) < least - EPSILON:
        text = quantity.unit(view.measure).format_distance(least, 2)
        return Status.CONTRADICTED, "", [*opposite, make_reason(ReasonKind.BELOW_LEAST, least=text)]
    # the paper's number is a single run, as scattered as one more run of ours, unless the tolerance
    # covers its chance
    reach = half if claim.reported_std is not None else half * math.sqrt(ours.n + 1)
    if sized and gap > allowed + reach + EPSILON:
        return Status.CONTRADICTED, "", [*opposite, make_reason(ReasonKind.FAR)]
    if opposite:
        return Status.CONTRADICTED, AGAINST, opposite
    if sides:
        zero = make_reason(
            ReasonKind.CONTAINS_ZERO if len(sides) == 1 else ReasonKind.ONE_CONTAINS_ZERO
        )
        return Status.OPEN, "", [zero, *([] if claim.expected else [_power_reason(claim, ours)])]
    return (
        (Status.SUPPORTED, "", [])
        if is_inside
        else (Status.OPEN, "", [make_reason(ReasonKind.OVER_EDGE)])
    )


def _smallest_lead(claim: Claim, quantity: Quantity, view: ExperimentView) -> float | None:
    """Return the smallest lead that counts; None if the claim is not about one."""
    if view.comparable and claim.expected and claim.expected.is_lead:
        return quantity.minimum_lead(view)
    return claim.least


def _judge_missed_target(claim: Claim, quantity: Quantity, view: ExperimentView) -> Judged:
    """Judge a claim if some seeds miss the target: the best values of each series show whether it
    reaches the target."""
    margins = [quantity.target_margins(view, label) for label in quantity.labels]
    out_of_reach = not view.comparable and all(max(seeds) < -EPSILON for seeds in margins)
    if out_of_reach and not claim.headline:  # whose protocol set the target for this scale
        return Status.NOT_TESTED, "", []
    sides = [estimate(seeds).side() for seeds in margins]
    if claim.expected or 0 in sides:
        return (
            Status.OPEN,
            "",
            [make_reason(ReasonKind.ONE_SEED)] * (not claim.expected and 1 in map(len, margins)),
        )
    if set(sides) == {-1}:
        return (Status.CONTRADICTED if view.comparable else Status.OPEN), "", []
    if set(sides) == {1}:
        return Status.OPEN, "", []
    return Status.OPEN, FOR if sides[0] * claim.reported_number > 0 else AGAINST, []


def _remarks(
    claim: Claim, quantity: Quantity, ours: Estimate, view: ExperimentView
) -> list[Reason]:
    """Return how far our value is from the reported number or, where sizes are not compared, what
    was asked in its place."""
    if claim.expected:
        return []
    if view.comparable:
        distances = {
            "gap": abs(ours.mean - claim.reported_number),
            "allowed": claim.allowed(ours.n),
        }
        texts = {
            name: distance_text(claim, distance, view.measure, ours.n)
            for name, distance in distances.items()
        }
        return [make_reason(ReasonKind.DISTANCE, **texts)]
    text = condition(claim, quantity, view.measure)
    remarks = [make_reason(ReasonKind.AT, text=text)] if text else []
    if claim.headline and ours.n > 1:  # the second question of a protocol: the size
        kind = (
            ReasonKind.EXCLUDES_REPORTED
            if ours.side(claim.reported_number)
            else ReasonKind.CONTAINS_REPORTED
        )
        reported = quantity.unit(view.measure).format(
            claim.reported_number, decimals(claim, view.measure)
        )
        remarks.append(make_reason(kind, reported=reported))
    return remarks


def condition(claim: Claim, quantity: Quantity, measure: Measure) -> str:
    """Return the target of a claim's quantity, and its rounds if they differ from the paper's, as a
    phrase; empty for none."""
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


def decimals(claim: Claim, measure: Measure) -> int:
    """Return the decimals of the reported and of our value: 2, or 1 for a difference that is
    reported with at most one."""
    one = (
        claim.quantity.contrast
        and not claim.expected
        and _point_decimals(claim.reported_number, 1, 2) == 1
    )
    return 1 if one else 2


def _point_decimals(value: float, *options: int) -> int:
    """Return the first of some numbers of decimals that shows a value, in points, in full; else the
    last."""
    return next(
        (digits for digits in options if math.isclose(round(100 * value, digits), 100 * value)),
        options[-1],
    )


def distance_text(claim: Claim, value: float, measure: Measure, seeds: int) -> str:
    """Format a distance of a mean over `seeds` from the reported value. It has at least the
    decimals of the tolerance, so that rounding never makes a distance look allowed that is not."""
    digits = max(decimals(claim, measure), _point_decimals(claim.allowed(seeds), 1, 2, 3))
    return claim.quantity.unit(measure).format_distance(value, digits)


def _power_reason(claim: Claim, ours: Estimate) -> Reason:
    needed = ours.seeds_needed(claim.reported_number)
    assert needed is not None  # there are several seeds
    if needed <= ours.n:
        return make_reason(ReasonKind.POWERED, seeds=ours.n)
    return make_reason(
        ReasonKind.SEEDS_NEEDED,
        seeds=f"over {MAX_SEEDS}" if needed > MAX_SEEDS else f"about {needed}",
    )


def seeds_needed(claim: Claim, ours: Estimate | None) -> int | None:
    """Return how many seeds would detect a difference of the reported size, given the standard
    deviation of our seeds; None for a single seed, and if the paper reports no such number."""
    if ours is None or not claim.quantity.contrast or claim.expected or not claim.reported:
        return None
    return ours.seeds_needed(claim.reported_number)


def claimed_contrasts(
    claim: Claim, quantity: Quantity, view: ExperimentView, ours: Estimate
) -> list[Estimate]:
    """Return the differences that must have the claimed sign, turned so that it is positive; none
    for a value."""
    if claim.expected:
        contrasts, sign = quantity.contrasts(view), claim.expected.sign
    elif quantity.contrast and claim.reported != 0:
        contrasts, sign = [ours], 1 if claim.reported_number > 0 else -1
    else:
        return []
    return [replace(contrast, mean=sign * contrast.mean) for contrast in contrasts]


def p_value(quantity: Quantity, contrasts: Sequence[Estimate]) -> float | None:
    """Return the p-value of no difference, or of the largest one below the slack; None if the claim
    is not about a difference.

    If a claim needs several differences: their largest p-value, or if some have the opposite sign,
    the smallest p-value of these times the number of differences (Bonferroni).
    """
    if not quantity.contrast or not contrasts:
        return None
    opposite = [contrast.p or 0 for contrast in contrasts if contrast.side() < 0]
    if opposite:
        return min(1.0, len(contrasts) * min(opposite))
    tested = [contrast.p for contrast in contrasts if contrast.p is not None]
    return max(tested) if len(tested) == len(contrasts) else None
