"""One verdict per published claim, computed from the claim's cell over seeds. Nothing here is typed in by hand."""

from dataclasses import dataclass, replace

from fedrepro.measures import MEASURES, Measure
from fedrepro.metrics import Estimate, estimate
from fedrepro.report.cells.base import Cell
from fedrepro.report.evidence import Panel, Shown
from fedrepro.report.loading import Results
from fedrepro.report.numbers import SCORES, amount
from fedrepro.report.spec import Claim

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
AGREES, DISAGREES, NOT_COMPARED, NOT_RUN = "direction agrees", "direction disagrees", "not compared", "not run"
SLACK = 1e-9  # a value that lies on the edge of a tolerance is within it, whatever the last bit says


@dataclass(frozen=True)
class Verdict:
    """A claim, our number for it and what follows. `ours` is None where no number could be computed; `why` then says so."""

    key: str
    claim: Claim
    measure: Measure
    status: str
    why: str
    ours: Estimate | None = None

    @property
    def reported(self) -> str:
        cell, reported = self.claim.cell, self.claim.reported
        return cell.show(reported, self.measure, digits=cell.digits(reported, self.measure))

    @property
    def found(self) -> str:
        """Our mean with its 95 % interval, or that there is one seed only."""
        if self.ours is None:
            return "-"
        cell, digits = self.claim.cell, self.claim.cell.digits(self.claim.reported, self.measure)
        text = cell.show(self.ours.mean, self.measure, digits=digits)
        if self.ours.half_width is None:
            return f"{text} (1 seed)"
        number = text.rsplit(" ", 1)[0]  # the unit stands once, behind the interval
        return f"{number} ± {cell.show(self.ours.half_width, self.measure, False, digits)} (n = {self.ours.n})"


def decide(key: str, claim: Claim, results: Results, measure: str) -> Verdict:
    """The verdict on a claim at the scale that the results were made at; it names data that are not the official release."""
    verdict = _decide(key, claim, Panel(claim.experiment, Shown(measure=measure), results))
    other = sorted({run["dataset"] for run in results.runs() if not run["dataset"].endswith("(official release)")})
    if not other or verdict.status in (NOT_RUN, NOT_COMPARED):
        return verdict
    return replace(verdict, why=f"{verdict.why}; on {', '.join(other)}")


def _decide(key: str, claim: Claim, panel: Panel) -> Verdict:
    def verdict(status: str, why: str, ours: Estimate | None = None) -> Verdict:
        return Verdict(key, claim, MEASURES[panel.shown.measure], status, why, ours)

    if panel.skipped:
        return verdict(NOT_RUN, panel.skipped)
    cell = claim.cell
    if panel.scale in claim.scale_targets:
        cell = cell.model_copy(update={"target": claim.scale_targets[panel.scale]})
    values, problem = cell.found(panel)
    ours = estimate(values) if values else None
    if panel.results.compare == "none":
        return verdict(NOT_COMPARED, f"scale {panel.scale} is never held against a paper", ours)
    if short := _short(claim, cell, panel):
        return verdict(NOT_COMPARED, short, ours)
    if problem:
        return verdict(*_without_number(problem, claim, cell, panel), ours)
    if panel.full:
        return verdict(*(_full(claim, panel.measure, ours) if ours else _told(cell, panel)), ours)
    return verdict(*_direction(claim, cell, panel.measure, ours), ours)


def _short(claim: Claim, cell: Cell, panel: Panel) -> str:
    """Why the runs are too short to say anything of the claim, e.g. after the number of rounds was lowered; empty if not."""
    needed = cell.needs(claim.reported, claim.tolerance)
    if not panel.full or needed == 0:
        return ""
    ends = {curve[-1][0] for curve in panel.curves(cell.series).values()}
    if ends and min(ends) < needed:
        return f"our runs end at round {min(ends)}, the claim is about round {needed}"
    return ""


def _without_number(problem: str, claim: Claim, cell: Cell, panel: Panel) -> tuple[str, str]:
    """Where one of two series does not arrive, the direction can be told still, and no more than that."""
    signs = set() if cell.lost(panel) else cell.signs(panel)
    wanted = (claim.reported > 0) - (claim.reported < 0) if signs else 0
    agrees = wanted != 0 and signs == {wanted}
    if not panel.full:
        against = wanted != 0 and -wanted in signs and wanted not in signs
        return (AGREES if agrees else DISAGREES if against else NOT_COMPARED), problem
    return (PARTLY if agrees else NOT), problem


def _told(cell: Cell, panel: Panel) -> tuple[str, str]:
    """Of a claim that is no number."""
    against, seeds, why = cell.contradicted(panel)
    return (REPRODUCED if not against else NOT if against == seeds else PARTLY), why


def _direction(claim: Claim, cell: Cell, measure: Measure, ours: Estimate) -> tuple[str, str]:
    if cell.absolute:
        return NOT_COMPARED, f"{cell.absolute} is compared at scale paper only"
    if claim.reported == 0:
        return NOT_COMPARED, "no difference has no sign; how small one is can be judged at scale paper only"
    at = cell.at()
    target = f", at {amount(measure, at)} {SCORES[measure.score]}" if at else ""
    status = AGREES if ours.mean * claim.reported > 0 else DISAGREES
    return status, f"only the sign is judged at this scale{target}{_spread(ours)}"


def _full(claim: Claim, measure: Measure, ours: Estimate) -> tuple[str, str]:
    cell, digits = claim.cell, claim.cell.digits(claim.reported, measure)
    gap, allowed = (cell.gap(value, measure, digits) for value in (abs(ours.mean - claim.reported), claim.tolerance))
    close = abs(ours.mean - claim.reported) <= claim.tolerance + SLACK
    text = f"{gap} from the reported value, {allowed} allowed{_spread(ours)}"
    signed = cell.signed and claim.reported != 0
    if signed and ours.mean * claim.reported <= 0:
        return NOT, f"the direction is not as reported; {text}"
    if signed and ours.low is not None and ours.low <= 0 <= ours.high:
        return PARTLY, f"the interval contains zero; {text}"
    if close and claim.reported == 0 and ours.low is not None and max(-ours.low, ours.high) > claim.tolerance + SLACK:
        return PARTLY, f"the interval reaches beyond what is allowed; {text}"
    if close:
        return REPRODUCED, text
    return (PARTLY if signed else NOT), f"the direction is as reported; {text}" if signed else text


def _spread(ours: Estimate) -> str:
    return "; one seed, so without an interval" if ours.n == 1 else ""
