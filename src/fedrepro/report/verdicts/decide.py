"""One verdict per claim, a paper's or one that we ask, computed from its cell over seeds. Nothing here is typed in by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedrepro.core.formatting import count
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.data import source_label
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import Panel, Shown
from fedrepro.report.numbers import NONE
from fedrepro.report.statistics import Estimate, estimate
from fedrepro.report.verdicts import rules
from fedrepro.report.verdicts.claim import Claim
from fedrepro.report.verdicts.rules import CALIBRATED, DISAGREES, FAILS, NONE_REPORTED, NOT, NOT_COMPARED, NOT_RUN, OWN
from fedrepro.runs.reasons import unfinished


@dataclass(frozen=True)
class Verdict:
    """A claim, our number for it and what follows. `ours` is None where no number could be computed; `arrived` then says who
    gets to the target, if anybody."""

    key: str
    claim: Claim
    measure: Measure
    status: str
    why: str
    ours: Estimate | None = None
    arrived: str = ""
    asked: str = ""  # at a scale with another target or other rounds than the paper's: which
    p: float | None = None  # of a claim that something is better: of no difference

    @property
    def digits(self) -> int:
        return self.claim.cell.digits(self.claim.reported, self.measure)

    @property
    def reported(self) -> str:
        """What the paper reports; of a question of ours that has no number of it, that it reports nothing."""
        if rules.unreported(self.claim):
            return NONE_REPORTED
        if self.claim.cell.word:
            return self.claim.reported
        return self.claim.cell.show(self.claim.reported, self.measure, digits=self.digits)

    @property
    def tolerance(self) -> str:
        """What our mean may differ by, with the reason."""
        cell, claim = self.claim.cell, self.claim
        if cell.word:
            return f"none: {cell.against(self.measure)}"
        allowed = rules.distance(claim, claim.tolerance, self.measure)
        return f"{allowed}: {claim.because}" if claim.because else allowed

    @property
    def needed(self) -> int | None:
        """See `rules.needed`."""
        return rules.needed(self.claim, self.ours)

    @property
    def found(self) -> str:
        """Our mean with its 95 % interval and the number of seeds; where there is no mean, who arrives."""
        return self._found(self.claim.cell.told)

    @property
    def number(self) -> str:
        """The same without the number of seeds."""
        return self._found(self.claim.cell.interval)

    def _found(self, tell: Callable[[Estimate, Measure, int], str]) -> str:
        if self.ours is None:
            return self.arrived or NONE
        text = tell(self.ours, self.measure, self.digits)
        return f"{self.arrived}; best {text}" if self.claim.cell.word and self.arrived else text


def decide(
    key: str,
    claim: Claim,
    results: Results,
    measure: str,
    chosen: Mapping[str, str] | None = None,
    others: Sequence[Results] = (),
    held: float | None = None,
    looked: int | None = None,
) -> Verdict:
    """The verdict on a claim at the scale that the results were made at; it names data that are not the official release.
    `chosen`: series -> what was chosen by what the paper reports of it. `others`: of the experiments that its cell needs beside
    the claim's own. `held`: in which part of the rounds the paper's own curves have the claimed sign, where they are known.
    `looked`: how many seeds had been looked at when more were added, if any were."""
    beside = dict(zip(claim.cell.others, others, strict=True))
    verdict = _decide(key, claim, Panel(claim.experiment, Shown(measure=measure), results, beside), held)
    if verdict.status in (NOT_RUN, NOT_COMPARED):
        return verdict
    verdict = _calibrated(verdict, chosen or {})
    data = sorted({run["dataset"] for found in (results, *others) for run in found.runs()})
    copies = [name for name in data if source_label.described(name)[1] != source_label.OFFICIAL]
    told = [f"on {', '.join(copies)}"] if copies else []
    return replace(verdict, why="; ".join([verdict.why, *told, *_seen(verdict, looked)]))


def _seen(verdict: Verdict, looked: int | None) -> list[str]:
    """What of the test was settled after numbers of ours had been seen."""
    added = verdict.ours.n - looked if looked and verdict.ours else 0
    told = [f"{count(added, 'seed')} added after a look at {looked}"] if added > 0 else []
    return [*told, "listed after its runs had been seen"] if verdict.claim.afterwards else told


def _calibrated(verdict: Verdict, chosen: Mapping[str, str]) -> Verdict:
    """Agreement with what a setting was chosen by is none; to be far from it even so is worth telling."""
    told = [f"{label}: {chosen[label]}" for label in verdict.claim.cell.labels if label in chosen]
    if not told:
        return verdict
    whole = len(told) == len(verdict.claim.cell.labels) and verdict.status not in (NOT, DISAGREES, FAILS)
    return replace(verdict, status=CALIBRATED if whole else verdict.status, why="; ".join([verdict.why, *told]))


def _decide(key: str, claim: Claim, panel: Panel, held: float | None) -> Verdict:
    def verdict(status: str, why: str, *found: Estimate | str | None) -> Verdict:
        return Verdict(key, claim, MEASURES[panel.shown.measure], status, why, *found)

    cell = panel.results.at_scale(claim.scales, claim.cell)
    for results in (panel.results, *panel.others.values()):
        if results.skipped:
            return verdict(NOT_RUN, str(results.skipped))
        if missing := [label for label in cell.labels if label in results.missing]:
            return verdict(NOT_RUN, str(unfinished(missing)))
    values, problem = cell.found(panel)
    ours = estimate(values) if values else None
    arrived = cell.arrived(panel) if problem or cell.word else ""
    asked = "" if panel.full else rules.asked(claim, cell, panel.measure)
    if reason := rules.beyond(claim, cell, panel, held):
        return verdict(NOT_COMPARED, reason, ours, arrived, asked)
    status, reason = rules.judged(claim, cell, panel, ours, problem)
    p = None if problem else rules.p_value(claim, cell, panel, ours)
    return verdict(OWN.get(status, status) if rules.unreported(claim) else status, reason, ours, arrived, asked, p)
