"""What a verdict is called, what that means, and which one follows from the numbers of a claim's quantity."""

import math
from enum import StrEnum

from fedrepro.core.metrics import Measure
from fedrepro.report.inference import is_equivalent, prediction_half_width, welch_half_width
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import SCORE_NAMES, format_target
from fedrepro.report.quantities.base import Quantity
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


Judged = tuple[Status, list[Reason]]

SPREAD = (
    "± is half of the 95 % interval of the mean over n seeds (Student's t); of a difference or a saving, over its values seed "
    "by seed. Where eight or more differences of a paper are tested, the variance of each is moderated towards the one they "
    "share (Smyth 2004; the prior counts for at most 4 degrees of freedom). That is so since 27 November 2026, when most runs "
    "had been seen; verdicts.json has the ordinary interval too. One seed has none. The interval covers what a seed draws: the "
    "partition, first weights, batches; not which images a scale uses, which are the same for all seeds. Each claim is judged "
    "by itself; which of them stay when all are corrected together is marked. A standard deviation is called s.d."
)
NO_LEAD = "0.04 in log odds (1 point at an accuracy of 50 %, 0.36 at 90 %, 0.04 at 99 %)"
STEADY = 0.9  # in that part of the rounds a paper's own curves must have a claimed sign, for shorter runs to speak of it
NONE_REPORTED = "nothing"  # by the paper, of what we ask
OWN = {  # of what the paper does not report
    Status.REPRODUCED: Status.HOLDS,
    Status.AGREES: Status.HOLDS,
    Status.NOT: Status.FAILS,
    Status.DISAGREES: Status.FAILS,
}
NO_CLAIM = "Nothing at this scale is held against the papers, so no claim is judged."
NONE_LISTED = "No claim of this paper is listed, so none is judged."
RULES = {
    Status.REPRODUCED: "The whole 90 % interval lies within the tolerance around the reported value (two one-sided tests at "
    "5 %). Where a difference is claimed, zero lies outside it and the tolerance is at most half of the difference.",
    Status.PARTLY: "Of a claimed difference only the direction is shown: the whole interval lies on the reported side of zero, "
    "but not within the tolerance, or the tolerance is wider than half of the difference; or only one of two arrives.",
    Status.NOT: "The reported value is further away than the tolerance and chance explain: outside the 95 % interval of one "
    "more run of ours or, where the paper gives a standard deviation, of the difference of both means (Welch). Where a "
    "difference is claimed, also: the whole interval lies on the other side of zero. Where no number is claimed, also: the 90 %"
    f" interval contains zero and ends below {NO_LEAD}; such a lead would not count.",
    Status.AGREES: "At a scale where only directions are judged: the whole interval lies on the reported side of zero.",
    Status.DISAGREES: "At such a scale: the whole interval lies on the other side of zero.",
    Status.HOLDS: "Asked by us, where the paper reports nothing: the whole interval lies on the side that our sentence names.",
    Status.FAILS: f"Of such a question: the whole interval lies on the other side, or around zero and ends below {NO_LEAD}.",
    Status.UNDECIDED: "There is one seed only, a run diverged or some seeds do not arrive; the interval reaches over the edge "
    "of the tolerance, or where a difference is claimed contains zero and reaches into it. More seeds would tell. Where the "
    f"paper reports a difference, we say how many would show one as large, in {100 * POWER:.0f} % of tries and if seeds "
    "scatter as ours do; of few seeds that is rough.",
    Status.CALIBRATED: "What the paper reports here was used to choose a setting of ours: that ours is near it shows nothing.",
    Status.NOT_COMPARED: "Our runs cannot test it: they are too short, or at a scale where such a number means something else; "
    "or there is nothing to compare, as in a network that answers with one class.",
    Status.NOT_RUN: "The runs that it needs are not finished, or are left out at this scale.",
}


def not_testable(claim: Claim, cell: Quantity, panel: ExperimentView, held: float | None) -> list[Reason]:
    """Why our runs cannot speak of the claim, whatever their numbers; empty if they can."""
    if text := panel.results.at_scale(claim.not_testable_at):
        return [make_reason(ReasonKind.NOT_TESTABLE, text=text)]
    needed = getattr(cell, "last", None) or (cell.rounds_needed(claim.reported, claim.tolerance) if panel.comparable else 0)
    ends = [curve[-1][0] for curve in panel.curves(cell.series).values()] if needed else []
    if ends and min(ends) < needed:  # e.g. after the number of rounds was lowered
        return [make_reason(ReasonKind.ENDS_EARLY, end=min(ends), needed=needed)]
    if not panel.comparable:
        if not cell.contrast:
            return [make_reason(ReasonKind.PAPER_ONLY)]
        if claim.reported == 0:
            return [make_reason(ReasonKind.NO_SIGN)]
        if held is not None and held < STEADY:
            return [make_reason(ReasonKind.UNSTEADY, percent=f"{100 * held:.0f}")]
    return [] if cell.diverged(panel) else cell.missing(panel)


def judge(
    claim: Claim, cell: Quantity, panel: ExperimentView, contrasts: list[Estimate], ours: Estimate | None, reasons: list[Reason]
) -> Judged:
    """Return the status of a claim and the reasons for it.

    Args:
        contrasts: the differences that have to lie on one side of zero where the claim reports a word.
        ours: our mean; None where some seed has no number, for which there are `reasons`.
    """
    if cell.diverged(panel):
        return Status.UNDECIDED, reasons
    if reasons:
        status, more = _without_number(claim, cell, panel)
        return status, reasons + more
    if claim.expected:
        return _worded(claim, cell, panel, contrasts)
    return _full(claim, ours, panel.measure) if panel.comparable else _direction(claim, cell, ours, panel.measure)


def _without_number(claim: Claim, cell: Quantity, panel: ExperimentView) -> Judged:
    """Where a series does not arrive, its best values say whether that is sure; of a difference this leaves the direction."""
    margins = [cell.target_margins(panel, label) for label in cell.labels]
    if not panel.comparable and all(margin < -EPSILON for own in margins for margin in own):
        return Status.NOT_COMPARED, []  # the target is out of reach at this scale
    sides = [estimate(own).side() for own in margins]
    if 0 in sides:
        return Status.UNDECIDED, _alone(min(map(len, margins)))
    if len(sides) == 1 or sides == [-1, -1]:
        return (Status.NOT if sides[0] < 0 else Status.UNDECIDED), []
    if sides == [1, 1]:
        return Status.UNDECIDED, []
    agrees = sides[0] * claim.reported > 0
    return _by_scale(panel.comparable, agrees, Status.PARTLY), []


def _by_scale(full: bool, agrees: bool, whole: Status) -> Status:
    if full:
        return whole if agrees else Status.NOT
    return Status.AGREES if agrees else Status.DISAGREES


def _worded(claim: Claim, cell: Quantity, panel: ExperimentView, contrasts: list[Estimate]) -> Judged:
    """A claim that is a word is true if all contrasts lie on its side of zero, and false if one lies on the other."""
    expected = claim.expected
    if contrasts[0].n == 1:
        return Status.UNDECIDED, [make_reason(ReasonKind.ONE_SEED)]
    sides = [one.side() * expected.sign for one in contrasts]
    if -1 in sides:
        return _by_scale(panel.comparable, False, Status.NOT), [make_reason(ReasonKind.OPPOSITE)]
    if 0 not in sides:
        return _by_scale(panel.comparable, True, Status.REPRODUCED), [make_reason(ReasonKind.AS_CLAIMED)]
    if panel.comparable and expected.is_lead and contrasts[0].upper(0.95) < (least := cell.minimum_lead(panel)) - EPSILON:
        return Status.NOT, [make_reason(ReasonKind.NO_LEAD, least=cell.unit(panel.measure).format_distance(least, 2))]
    return Status.UNDECIDED, [make_reason(ReasonKind.CONTAINS_ZERO if len(contrasts) == 1 else ReasonKind.ONE_CONTAINS_ZERO)]


def _direction(claim: Claim, cell: Quantity, ours: Estimate, measure: Measure) -> Judged:
    at = condition(claim, cell, measure)
    reasons = [make_reason(ReasonKind.SIGN_ONLY), *([make_reason(ReasonKind.AT, text=at)] if at else [])]
    if (side := ours.side()) == 0:
        return Status.UNDECIDED, reasons + (_alone(ours.n) or [make_reason(ReasonKind.CONTAINS_ZERO), _power(claim, ours)])
    return _by_scale(False, side * claim.reported > 0, Status.AGREES), reasons


def condition(claim: Claim, cell: Quantity, measure: Measure) -> str:
    """At which target, and at which rounds where those are not the paper's."""
    target = getattr(cell, "target", None)
    parts = [f"at {format_target(measure, target)} {SCORE_NAMES[measure.score]}"] if target else []
    if cell == claim.quantity:
        return ", ".join(parts)
    if last := getattr(cell, "last", None):
        parts.append(f"over the last {last} rounds")
    if round := getattr(cell, "round", None):
        smooth = getattr(cell, "smooth", 1)
        parts.append(f"as the mean of {smooth} rounds up to round {round}" if smooth > 1 else f"at round {round}")
    return ", ".join(parts)


def _full(claim: Claim, ours: Estimate, measure: Measure) -> Judged:
    gap, allowed = (distance_text(claim, value, measure) for value in (abs(ours.mean - claim.reported), claim.tolerance))
    how_far = [make_reason(ReasonKind.DISTANCE, gap=gap, allowed=allowed)]
    if ours.n == 1:
        return Status.UNDECIDED, how_far + _alone(1)
    judge = _difference if claim.quantity.contrast and claim.reported != 0 else _level
    status, reasons = judge(claim, ours)
    return status, reasons + how_far


def decimals(claim: Claim, measure: Measure) -> int:
    """Decimals of ours and of what is reported: of a difference one where the reported number has no second."""
    one = claim.quantity.contrast and not claim.expected and _decimals(claim.reported, 1, 2) == 1
    return 1 if one else 2


def _decimals(value: float, *tried: int) -> int:
    """Of points: as few of these as show a value in full, else the last."""
    return next((digits for digits in tried if math.isclose(round(100 * value, digits), 100 * value)), tried[-1])


def distance_text(claim: Claim, value: float, measure: Measure) -> str:
    """A distance from what is reported, with the decimals of the tolerance too: rounded alike, what is told and what decides
    could contradict each other."""
    return claim.quantity.unit(measure).format_distance(
        value, max(decimals(claim, measure), _decimals(claim.tolerance, 1, 2, 3))
    )


def _difference(claim: Claim, ours: Estimate) -> Judged:
    """Of a claim that something is better: first its sign, then its size."""
    reported, tolerance = claim.reported, claim.tolerance
    if (side := ours.side()) == 0:
        if _outside(claim, ours):
            return Status.NOT, [make_reason(ReasonKind.NONE_AS_LARGE)]
        return Status.UNDECIDED, [make_reason(ReasonKind.CONTAINS_ZERO), _power(claim, ours)]
    if side * reported < 0:
        return Status.NOT, [make_reason(ReasonKind.OPPOSITE)]
    if tolerance > abs(reported) / 2 + EPSILON:
        return Status.PARTLY, [make_reason(ReasonKind.WIDE_TOLERANCE)]
    if is_equivalent(ours, tolerance, around=reported):
        return Status.REPRODUCED, []
    close = abs(ours.mean - reported) <= tolerance + EPSILON
    return Status.PARTLY, [make_reason(ReasonKind.BEYOND_TOLERANCE if close else ReasonKind.DIRECTION)]


def _power(claim: Claim, ours: Estimate) -> Reason:
    needed = ours.seeds_needed(claim.reported)
    if needed <= ours.n:
        return make_reason(ReasonKind.POWERED, seeds=ours.n)
    return make_reason(ReasonKind.SEEDS_NEEDED, seeds=f"over {MAX_SEEDS}" if needed > MAX_SEEDS else f"some {needed}")


def _level(claim: Claim, ours: Estimate) -> Judged:
    if is_equivalent(ours, claim.tolerance, around=claim.reported):
        return Status.REPRODUCED, []
    if _outside(claim, ours):
        return Status.NOT, []
    return Status.UNDECIDED, [make_reason(ReasonKind.OVER_EDGE)]


def _outside(claim: Claim, ours: Estimate) -> bool:
    """Return whether the reported value is further away than the tolerance and chance explain.

    A published number is that of one more run, or, where the paper gives a standard deviation, the mean of its runs.
    """
    if claim.reported_std is not None and claim.reported_runs is not None:
        reach = welch_half_width(ours, claim.reported_std, claim.reported_runs)
    else:
        reach = prediction_half_width(ours)
    return reach is not None and abs(ours.mean - claim.reported) > claim.tolerance + reach + EPSILON


def _alone(seeds: int) -> list[Reason]:
    return [make_reason(ReasonKind.ONE_SEED)] if seeds == 1 else []


def seeds_needed(claim: Claim, ours: Estimate | None) -> int | None:
    """How many seeds, scattered as ours, would show a difference as large as is reported; None where no number of one is, and
    of a single seed."""
    return (
        ours.seeds_needed(claim.reported)
        if ours and claim.quantity.contrast and not claim.expected and claim.reported
        else None
    )


def p_value(claim: Claim, cell: Quantity, contrasts: list[Estimate], ours: Estimate) -> float | None:
    """Of no difference; None of a level. Where several things have to be true: of the least sure one; where one of them is
    shown to be false, of that one, times their number."""
    if not cell.contrast or claim.reported == 0:
        return None
    if not claim.expected:
        return ours.p
    if not claim.expected.tested:
        return None
    false = [one.p or 0 for one in contrasts if one.side() == -claim.expected.sign]
    if None in (one.p for one in contrasts) and not false:
        return None
    return min(1.0, len(contrasts) * min(false)) if false else max(one.p for one in contrasts)
