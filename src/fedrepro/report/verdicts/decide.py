"""One verdict per claim, a paper's or one that we ask, computed from its cell over seeds. Nothing here is typed in by hand."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedrepro.core.formatting import count
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.data import source_label
from fedrepro.report.inference import moderated
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView
from fedrepro.report.numbers import NO_VALUE, Unit
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason, reasons_sentence
from fedrepro.report.statistics import Estimate
from fedrepro.report.verdicts import rules
from fedrepro.report.verdicts.claim import Claim
from fedrepro.report.verdicts.rules import Status
from fedrepro.runs.reasons import unfinished


@dataclass(frozen=True)
class Verdict:
    """A claim, our number for it and what follows. `ours` is None where no number could be computed; `arrived` then says who
    gets to the target, if anybody."""

    key: str
    claim: Claim
    measure: Measure
    status: Status
    reasons: list[Reason]
    ours: Estimate | None = None
    arrivals: str = ""
    condition: str = ""  # at a scale with another target or other rounds than the paper's: which
    p: float | None = None  # of a claim that something is better: of no difference
    plain: Estimate | None = None  # `ours` with the standard deviation of its own seeds alone
    tested: tuple[Estimate, ...] = ()  # the differences that `p` is of

    @property
    def why(self) -> str:
        return reasons_sentence(self.reasons)

    @property
    def digits(self) -> int:
        return rules.decimals(self.claim, self.measure)

    @property
    def unit(self) -> Unit:
        return self.claim.quantity.unit(self.measure)

    @property
    def reported(self) -> str:
        """What the paper reports; of a question of ours that has no number of it, that it reports nothing."""
        if self.claim.is_own_question:
            return rules.NONE_REPORTED
        return self.claim.reported if self.claim.expected else self.unit.format(self.claim.reported, self.digits)

    @property
    def tolerance(self) -> str:
        """What our mean may differ by, with the reason."""
        if self.claim.expected:
            slack = getattr(self.claim.quantity, "slack", None)
            allowed = f"{self.unit.format_distance(slack, 2)} below the baseline" if slack else ""
            return allowed or "none: only the side of zero is judged"
        allowed = rules.distance_text(self.claim, self.claim.tolerance, self.measure)
        return f"{allowed}: {self.claim.because}" if self.claim.because else allowed

    @property
    def seeds_needed(self) -> int | None:
        """See `rules.needed`."""
        return rules.seeds_needed(self.claim, self.ours)

    @property
    def our_value(self) -> str:
        """Our mean with its 95 % interval and the number of seeds; where there is no mean, who arrives."""
        return self._found(Unit.format_mean)

    @property
    def our_interval(self) -> str:
        """The same without the number of seeds."""
        return self._found(Unit.format_interval)

    def _found(self, form: Callable[[Unit, Estimate, int], str]) -> str:
        mean = form(self.unit, self.ours, self.digits) if self.ours else ""
        return "; ".join(filter(None, [self.arrivals, mean])) or NO_VALUE


def decide(
    key: str,
    claim: Claim,
    results: Results,
    measure: str,
    calibrations: Mapping[str, str] | None = None,
    others: Sequence[Results] = (),
    sign_share: float | None = None,
    seeds_at_first_look: int | None = None,
    shared: Mapping[Estimate, Estimate] | None = None,
) -> Verdict:
    """The verdict on a claim at the scale that the results were made at; it names data that are not the official release.
    `chosen`: series -> what was chosen by what the paper reports of it. `others`: of the experiments that its cell needs beside
    the claim's own. `held`: in which part of the rounds the paper's own curves have the claimed sign, where they are known.
    `looked`: how many seeds had been looked at when more were added, if any were."""
    beside = dict(zip(claim.quantity.other_experiments, others, strict=True))
    verdict = _decide(
        key, claim, ExperimentView(claim.experiment, DisplayOptions(measure=measure), results, beside), sign_share, shared or {}
    )
    if verdict.status in (Status.NOT_RUN, Status.NOT_COMPARED):
        return verdict
    verdict = _calibrated(verdict, calibrations or {})
    data = sorted({run["dataset"] for found in (results, *others) for run in found.runs()})
    copies = [name for name in data if source_label.parse_label(name)[1] != source_label.OFFICIAL]
    on = [make_reason(ReasonKind.COPIES, data=", ".join(copies))] if copies else []
    return replace(verdict, reasons=[*verdict.reasons, *on, *_seen(verdict, seeds_at_first_look)])


def shared_variances(verdicts: Iterable[Verdict]) -> dict[Estimate, Estimate]:
    """Return each tested difference with the variance that its family lends it: the differences of one paper and unit."""
    families: dict[str, dict[Estimate, None]] = {}
    for verdict in verdicts:
        family = families.setdefault(verdict.unit.name, {})
        family.update(dict.fromkeys(one for one in verdict.tested if one.degrees is None))
    return {one: better for family in families.values() for one, better in zip(family, moderated(list(family)), strict=True)}


def _seen(verdict: Verdict, looked: int | None) -> list[Reason]:
    """What of the test was settled after numbers of ours had been seen."""
    added = verdict.ours.n // verdict.claim.quantity.panels - looked if looked and verdict.ours else 0
    reasons = [make_reason(ReasonKind.SEEDS_ADDED, seeds=count(added, "seed"), looked=looked)] if added > 0 else []
    return [*reasons, make_reason(ReasonKind.LISTED_LATE)] if verdict.claim.registered_after_results else reasons


def _calibrated(verdict: Verdict, chosen: Mapping[str, str]) -> Verdict:
    """Agreement with what a setting was chosen by is none; to be far from it even so is worth telling."""
    labels = verdict.claim.quantity.labels
    reasons = [make_reason(ReasonKind.CALIBRATED, series=label, text=chosen[label]) for label in labels if label in chosen]
    failed = verdict.status in (Status.NOT, Status.DISAGREES, Status.FAILS)
    calibrated = reasons and len(reasons) == len(labels) and not failed
    status = Status.CALIBRATED if calibrated else verdict.status
    return replace(verdict, status=status, reasons=[*verdict.reasons, *reasons])


def _decide(key: str, claim: Claim, panel: ExperimentView, held: float | None, shared: Mapping[Estimate, Estimate]) -> Verdict:
    def verdict(status: Status, reasons: list[Reason], *found: Estimate | str | None) -> Verdict:
        return Verdict(key, claim, MEASURES[panel.display.measure], status, reasons, *found)

    cell = panel.results.at_scale(claim.scales, claim.quantity)
    for results in (panel.results, *panel.other_results.values()):
        missing = [label for label in cell.labels if label in results.unfinished_series]
        if absent := results.missing_reason or (unfinished(missing) if missing else None):
            return verdict(Status.NOT_RUN, [make_reason(ReasonKind.NOT_RUN, text=str(absent))])
    values, reasons = cell.evaluate(panel)
    plain = cell.estimate(panel) if values else None
    ours = plain and shared.get(plain, plain)
    arrived = "" if cell.diverged(panel) or cell.missing(panel) or not (reasons or claim.expected) else _arrivals(cell, panel)
    asked = "" if panel.comparable else rules.condition(claim, cell, panel.measure)
    if beyond := rules.not_testable(claim, cell, panel, held):
        return verdict(Status.NOT_COMPARED, beyond, plain, arrived, asked)
    contrasts = [shared.get(one, one) for one in cell.contrasts(panel)] if claim.expected and values else []
    p = None if reasons else rules.p_value(claim, cell, contrasts, ours)
    status, reasons = rules.judge(claim, cell, panel, contrasts, ours, reasons)
    tested = (contrasts or [ours]) if p is not None else []
    found = verdict(rules.OWN.get(status, status) if claim.is_own_question else status, reasons, ours, arrived, asked, p)
    support = cell.evidence(panel) if values else []
    return replace(found, reasons=[*found.reasons, *support], plain=plain, tested=tuple(tested))


def _arrivals(cell: Quantity, panel: ExperimentView) -> str:
    """Who gets to the target, of each series."""
    return "; ".join(f"{label}: {text}" for label in cell.labels if (text := cell.arrivals_text(panel, label)))
