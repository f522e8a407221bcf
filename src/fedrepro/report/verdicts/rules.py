"""What a verdict is called, what that means, and which one follows from the numbers of a claim's cell."""

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.numbers import SCORES, amount
from fedrepro.report.quantities import higher
from fedrepro.report.quantities.base import Cell, apart, decimals
from fedrepro.report.statistics import MOST, POWER, SLACK, Estimate, estimate
from fedrepro.report.verdicts.claim import Claim

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
AGREES, DISAGREES, UNDECIDED = "direction agrees", "direction disagrees", "undecided"
HOLDS, FAILS = "holds", "does not hold"
CALIBRATED, NOT_COMPARED, NOT_RUN = "calibrated on this", "not compared", "not run"
SPREAD = (
    "± is half of the 95 % interval of the mean over n seeds (Student's t); of a difference or a saving, over its values seed "
    "by seed. One seed has none. It covers what a seed draws: the partition, first weights, batches; not which images a scale "
    "uses, which are the same for all seeds. Each claim is judged by itself, without a correction for their number. A standard "
    "deviation is called s.d."
)
LEAST = apart(higher.Cell.least)  # smaller leads do not count
STEADY = 0.9  # in that part of the rounds a paper's own curves must have a claimed sign, for shorter runs to speak of it
NONE_REPORTED = "nothing"  # by the paper, of what we ask
OWN = {REPRODUCED: HOLDS, AGREES: HOLDS, NOT: FAILS, DISAGREES: FAILS}  # of what is told as reporting nothing
NO_CLAIM = "Nothing at this scale is held against the papers, so no claim is judged."
NONE_LISTED = "No claim of this paper is listed, so none is judged."
RULES = {
    REPRODUCED: "The whole 95 % interval lies within the tolerance around the reported value. Where a difference is claimed, "
    "zero lies outside it and the tolerance is at most half of the difference.",
    PARTLY: "Of a claimed difference only the direction is shown: the whole interval lies on the reported side of zero, but "
    "not within the tolerance, or the tolerance is wider than half of the difference; or only one of two arrives.",
    NOT: "The whole interval lies outside the tolerance; where a difference is claimed, on the other side of zero, or around "
    "zero, so that neither its size nor its direction is there. Where no number is claimed, also an interval around zero that "
    f"ends below {LEAST}: such a lead would not count.",
    AGREES: "At a scale where only directions are judged: the whole interval lies on the reported side of zero.",
    DISAGREES: "At such a scale: the whole interval lies on the other side of zero.",
    HOLDS: "Asked by us, where the paper reports nothing: the whole interval lies on the side that our sentence names.",
    FAILS: f"Of such a question: the whole interval lies on the other side, or around zero and ends below {LEAST}.",
    UNDECIDED: "There is one seed only, a run diverged or some seeds do not arrive; the interval reaches over the edge of the "
    "tolerance, or where a difference is claimed contains zero and reaches into it. More seeds would tell. Where the paper "
    f"reports a difference, we say how many would show one as large, in {100 * POWER:.0f} % of tries and if seeds scatter as "
    "ours do; of few seeds that is rough.",
    CALIBRATED: "What the paper reports here was used to choose a setting of ours: that ours is near it shows nothing.",
    NOT_COMPARED: "Our runs cannot test it: they are too short, or at a scale where such a number means something else; or "
    "there is nothing to compare, as in a network that answers with one class.",
    NOT_RUN: "The runs that it needs are not finished, or are left out at this scale.",
}


def unreported(claim: Claim) -> bool:
    """Whether the paper has neither this claim nor a number for it, so that nothing of it is there to be reproduced."""
    return bool(claim.ours and claim.cell.word)


def judged(claim: Claim, cell: Cell, panel: Panel, ours: Estimate | None, problem: str) -> tuple[str, str]:
    """Status and reason; without a number for every seed (`ours` is None) there is a `problem`."""
    if cell.lost(panel):
        return UNDECIDED, problem
    if problem:
        return _without_number(problem, claim, cell, panel)
    if cell.word:
        return _worded(cell, panel)
    return (_full if panel.full else _direction)(claim, cell, panel.measure, ours)


def beyond(claim: Claim, cell: Cell, panel: Panel, held: float | None) -> str:
    """Why our runs cannot speak of the claim, whatever their numbers; empty if they can."""
    if reason := panel.results.at_scale(claim.beyond):
        return reason
    needed = getattr(cell, "last", None) or (cell.needs(claim.reported, claim.tolerance) if panel.full else 0)
    ends = [curve[-1][0] for curve in panel.curves(cell.series).values()] if needed else []
    if ends and min(ends) < needed:  # e.g. after the number of rounds was lowered
        return f"our runs end at round {min(ends)}, the claim is about round {needed}"
    if not panel.full:
        if cell.absolute:
            return f"{cell.absolute} is compared at scale paper only"
        if claim.reported == 0:
            return "a claim of no difference has no sign; its size is judged at scale paper only"
        if held is not None and held < STEADY:
            told = f"the paper's own curves have this sign in {100 * held:.0f} % of their rounds"
            return f"{told}: shorter runs say nothing about the end"
    return "" if cell.lost(panel) else cell.absent(panel)


def _without_number(problem: str, claim: Claim, cell: Cell, panel: Panel) -> tuple[str, str]:
    """Where a series does not arrive, its best values say whether that is sure; of a difference this leaves the direction."""
    margins = {label: cell.margins(panel, label) for label in cell.labels}
    if not panel.full and all(margin < -SLACK for own in margins.values() for margin in own):
        return NOT_COMPARED, problem  # the target is out of reach at this scale
    sides = [estimate(own).side() for own in margins.values()]
    if 0 in sides:
        return UNDECIDED, problem + _alone(min(map(len, margins.values())))
    if len(sides) == 1 or sides == [-1, -1]:
        return (NOT if sides[0] < 0 else UNDECIDED), problem
    if sides == [1, 1]:
        return UNDECIDED, problem
    agrees = sides[0] * claim.reported > 0
    return ((PARTLY if agrees else NOT) if panel.full else (AGREES if agrees else DISAGREES)), problem


def _worded(cell: Cell, panel: Panel) -> tuple[str, str]:
    """Of a claim that is a word, by the side on which its margins lie: it is true if all are on its side, and false if one is
    on the other."""
    found = [estimate(margins) for margins in cell.required(panel)]
    if found[0].n == 1:
        return UNDECIDED, "one seed has no interval"
    sides = {one.side() for one in found}
    side = -cell.holds if -cell.holds in sides else 0 if 0 in sides else cell.holds
    reason = cell.sides(panel)[side + 1]
    if side == 0:
        unsure = [one for one in found if one.side() == 0]
        nothing = next(filter(None, (cell.nothing(one, panel.measure) for one in unsure if panel.full)), "")
        return (NOT if nothing else UNDECIDED), nothing or reason
    return ((REPRODUCED, NOT) if panel.full else (AGREES, DISAGREES))[side != cell.holds], reason


def _direction(claim: Claim, cell: Cell, measure: Measure, ours: Estimate) -> tuple[str, str]:
    text = ", ".join(filter(None, ["only the sign is judged at this scale", asked(claim, cell, measure)]))
    if (side := ours.side()) == 0:
        return UNDECIDED, text + (_alone(ours.n) or f"; the interval of the difference contains zero; {_power(claim, ours)}")
    return (AGREES if side * claim.reported > 0 else DISAGREES), text


def asked(claim: Claim, cell: Cell, measure: Measure) -> str:
    """At which target, and at which rounds where those are not the paper's."""
    target = cell.at()
    told = [f"at {amount(measure, target)} {SCORES[measure.score]}"] if target else []
    if cell != claim.cell:
        smooth = getattr(cell, "smooth", 1)
        mean = f"as the mean of {smooth} rounds up to " if smooth > 1 else "at "
        rounds = {"round": f"{mean}round {{}}", "last": "over the last {} rounds"}
        told += [text.format(value) for field, text in rounds.items() if (value := getattr(cell, field, None))]
    return ", ".join(told)


def _full(claim: Claim, cell: Cell, measure: Measure, ours: Estimate) -> tuple[str, str]:
    gap, allowed = (distance(claim, value, measure) for value in (abs(ours.mean - claim.reported), claim.tolerance))
    text = f"{gap} from the reported value, {allowed} allowed{_alone(ours.n)}"
    if ours.n == 1:
        return UNDECIDED, text
    judge = _difference if cell.signed and claim.reported != 0 else _level
    status, reason = judge(claim, ours)
    return status, "; ".join(filter(None, [reason, text]))


def distance(claim: Claim, value: float, measure: Measure) -> str:
    """A distance from what is reported, with the decimals of the tolerance too: rounded alike, what is told and what decides
    could contradict each other."""
    digits = max(claim.cell.digits(claim.reported, measure), decimals(claim.tolerance))
    return claim.cell.gap(value, measure, digits)


def _difference(claim: Claim, ours: Estimate) -> tuple[str, str]:
    """Of a claim that something is better: first its sign, then its size."""
    reported, tolerance = claim.reported, claim.tolerance
    if (side := ours.side()) == 0:
        if _outside(claim, ours):
            return NOT, "the interval contains zero and no difference as large as is reported"
        return UNDECIDED, f"the interval of the difference contains zero; {_power(claim, ours)}"
    if side * reported < 0:
        return NOT, "the direction is not as reported"
    if tolerance > abs(reported) / 2 + SLACK:
        return PARTLY, "the direction is as reported; so wide a tolerance (over half of the difference) says no more"
    if ours.within(tolerance, reported):
        return REPRODUCED, ""
    return PARTLY, f"the direction is as reported{_over(claim, ours)}"


def _power(claim: Claim, ours: Estimate) -> str:
    needed = ours.needed(claim.reported)
    if needed <= ours.n:
        return f"one as large as is reported would mostly show with {ours.n} seeds"
    return f"one as large as is reported would take {f'over {MOST}' if needed > MOST else f'some {needed}'} seeds to show"


def _level(claim: Claim, ours: Estimate) -> tuple[str, str]:
    if ours.within(claim.tolerance, claim.reported):
        return REPRODUCED, ""
    if _outside(claim, ours):
        return NOT, ""
    return UNDECIDED, "the interval reaches over the edge of the tolerance"


def _outside(claim: Claim, ours: Estimate) -> bool:
    """Whether nothing of the interval lies within the tolerance."""
    return ours.side(claim.reported - claim.tolerance) < 0 or ours.side(claim.reported + claim.tolerance) > 0


def _over(claim: Claim, ours: Estimate) -> str:
    """Said where the mean is near enough, the interval not."""
    close = abs(ours.mean - claim.reported) <= claim.tolerance + SLACK
    return ", the interval reaches beyond what is allowed" if close else ""


def _alone(seeds: int) -> str:
    return "; one seed has no interval" if seeds == 1 else ""


def needed(claim: Claim, ours: Estimate | None) -> int | None:
    """How many seeds, scattered as ours, would show a difference as large as is reported; None where no number of one is, and
    of a single seed."""
    asked = claim.cell.signed and not claim.cell.word and claim.reported != 0
    return ours.needed(claim.reported) if ours and asked else None


def p_value(claim: Claim, cell: Cell, panel: Panel, ours: Estimate) -> float | None:
    """Of no difference; None of a level. Where several things have to be true: of the least sure one; where one of them is
    shown to be false, of that one, times their number."""
    if not cell.signed or claim.reported == 0:
        return None
    if not cell.word:
        return ours.p
    found = [estimate(margins) for margins in cell.required(panel)]
    false = [one.p or 0 for one in found if one.side() == -cell.holds]
    if None in (one.p for one in found) and not false:
        return None
    return min(1.0, len(found) * min(false)) if false else max(one.p for one in found)
