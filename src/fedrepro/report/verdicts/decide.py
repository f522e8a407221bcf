"""From claims to their verdicts, computed from the results of all seeds, and to the records that
all documents show."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedrepro.core.metrics import Measure
from fedrepro.data import source_label
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView, PaperData
from fedrepro.report.numbers import NO_VALUE, Unit
from fedrepro.report.paper import Paper
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason, reasons_sentence
from fedrepro.report.statistics import Estimate, holm
from fedrepro.report.verdicts import paper_curves, registration, rules
from fedrepro.report.verdicts.claim import Claim
from fedrepro.report.verdicts.registration import Registration
from fedrepro.report.verdicts.rules import Status
from fedrepro.report.verdicts.summary import LEVEL, PAPER, US, Record, distinct_tests
from fedrepro.runs.reasons import unfinished


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim before Holm's correction. `ours` is None if some seeds have no
    value."""

    key: str
    claim: Claim
    measure: Measure
    status: Status
    reasons: list[Reason]
    lean: str = ""  # see `rules.judge`
    ours: Estimate | None = None
    # panel -> seed -> value
    samples: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    arrivals: str = ""  # how many seeds of each series reach the target, if that matters
    condition: str = ""  # the target and rounds at a scale that does not compare sizes
    p: float | None = None  # of no difference; None if the claim is not about a difference
    registered: Registration | None = None  # when it was; None for a claim without a verdict

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
        """The reported word or number with its unit; "nothing" for our own questions."""
        if self.claim.has_nothing_to_reproduce:
            return rules.NONE_REPORTED
        reported = self.claim.reported
        return reported if isinstance(reported, str) else self.unit.format(reported, self.digits)

    @property
    def tolerance(self) -> str:
        """The distance from the reported value that is allowed, with the reason."""
        if self.claim.expected:
            slack = getattr(self.claim.quantity, "slack", None)
            return (
                f"{self.unit.format_distance(slack, 2)} below the baseline"
                if slack
                else "none: only the direction is judged"
            )
        seeds = self.ours.n if self.ours else 1
        allowed = rules.distance_text(self.claim, self.claim.allowed(seeds), self.measure, seeds)
        if self.claim.reported_std is None:
            return f"{allowed}: {self.claim.because}" if self.claim.because else allowed
        std = self.unit.format_distance(self.claim.reported_std, 2)
        origin = (
            f"from the paper's standard deviation of {std} over {self.claim.reported_runs} runs"
        )
        reach = f"what an exact replication meets in 95 % of cases, computed {origin}"
        return (
            f"{allowed} with our {seeds} seed{'s' if seeds > 1 else ''}: {reach}"
            if self.ours
            else f"{reach} and our seeds"
        )

    @property
    def seeds_needed(self) -> int | None:
        """How many seeds would detect a difference of the reported size, see
        `rules.seeds_needed`."""
        return rules.seeds_needed(self.claim, self.ours)

    @property
    def our_value(self) -> str:
        """Our mean with its 95 % interval and the number of seeds, after the `arrivals` if there
        are any."""
        mean = self.unit.format_mean(self.ours, self.digits) if self.ours else ""
        return "; ".join(filter(None, [self.arrivals, mean])) or NO_VALUE


def make_records(spec: Paper, evidence: PaperData) -> list[Record]:
    """Return the records of all claims of a paper with their final verdicts; none at a scale that
    is not compared with the paper.
    """
    names = {key: options.name for key, options in spec.experiments.items() if options.name}
    records: list[Record] = []
    for verdict in decide_all(spec, evidence):
        contradiction = paper_curves.contradiction(spec.experiments, verdict.claim, evidence.curves)
        remark = f"by the paper's own plotted curves {contradiction}" if contradiction else ""
        records.append(record_of(verdict, spec.artifact_of(verdict.claim), remark, names))
    return corrected(records, spec.headlines)


def corrected(records: Iterable[Record], headlines: Iterable[str]) -> list[Record]:
    """Return records with their final verdicts.

    p values are corrected for the number of tests (Holm) within two families: the headlines with a
    protocol, and the others. A headline without a p counts as p = 1, so that no later answer takes
    a word back.
    """
    records, headlines = list(records), set(headlines)
    planned = [one for one in records if one.key in headlines]
    others = [one for one in records if one.key not in headlines]
    unanswered = {(one.key,): 1.0 for one in planned if one.p is None}
    after = {
        True: holm(unanswered | distinct_tests(planned)),
        False: holm(distinct_tests(others)),
    }
    return [
        after_holm(one, None if one.p is None else after[one.key in headlines][one.test])
        for one in records
    ]


def after_holm(record: Record, p_holm: float | None) -> Record:
    """Return a record with its final verdict: what rests on the side of zero is open unless p
    remains significant."""
    if record.lean and p_holm is not None and p_holm > LEVEL:
        why = "; ".join(
            filter(
                None, [record.why, str(make_reason(ReasonKind.NOT_AFTER_HOLM, p=f"{p_holm:.2g}"))]
            )
        )
        return replace(record, verdict=Status.OPEN, why=why, p_holm=p_holm)
    return replace(record, lean=record.lean if record.verdict == Status.OPEN else "", p_holm=p_holm)


def decide_all(spec: Paper, evidence: PaperData) -> list[Verdict]:
    """Return the verdicts on all claims of a paper; none at a scale that is not compared with the
    paper."""
    verdicts = []
    for key, claim in spec.claims.items():
        sources = {name: evidence.results[name] for name in claim.sources}
        results, *others = sources.values()
        if results.compare != "none":
            measure = claim.ref.resolved(spec.experiments).measure
            sign_share = paper_curves.sign_share(spec.experiments, claim, evidence.curves)
            when = registration.of_claim(key, claim, spec.experiments, sources, spec.folder)
            calibrations = spec.calibrations_of(claim)
            verdicts.append(
                decide(key, claim, results, measure, calibrations, others, sign_share, when)
            )
    return verdicts


def record_of(
    verdict: Verdict, artifact: str = "", remark: str = "", names: Mapping[str, str] | None = None
) -> Record:
    """Return the record of a verdict before Holm's correction.

    Args:
        artifact: the figure or table that the claim is shown with.
        remark: the first part of its note.
        names: of experiments, in place of their keys where they are panels.
    """
    claim, ours, reasons = verdict.claim, verdict.ours, verdict.reasons
    return Record(
        claim=claim.text,
        source=claim.source,
        reported=verdict.reported,
        ours=verdict.our_value,
        asked=verdict.condition,
        verdict=verdict.status,
        lean=verdict.lean,
        why=_with_panel_names(verdict.why, names or {})
        if claim.quantity.panels > 1
        else verdict.why,
        note="; ".join(filter(None, [remark, claim.note])),
        key=verdict.key,
        experiment=claim.experiment,
        artifact=artifact,
        tolerance=verdict.tolerance,
        by=US if claim.own_question else PAPER,
        registered=str(verdict.registered or ""),
        headline=claim.headline or "",
        mean=ours and ours.mean,
        half_width=ours and ours.half_width,
        standard_error=ours and ours.standard_error,
        seeds=ours and ours.n,
        p=verdict.p,
        p_holm=None,  # follows from all verdicts together
        reported_number=None if isinstance(claim.reported, str) else claim.reported,
        seeds_needed=verdict.seeds_needed,
        unit=verdict.unit.name,
        panels=claim.quantity.panels,
        samples=verdict.samples,
        measure=verdict.measure.title,
        calibrated="; ".join(
            reason.values["text"] for reason in reasons if reason.kind == ReasonKind.CALIBRATED
        ),
    )


def _with_panel_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of experiments in place of their keys, where a signed number
    follows."""
    return re.sub(r"\b(\w+)(?= [+-]\d)", lambda key: names.get(key[1], key[1]), text)


def decide(
    key: str,
    claim: Claim,
    results: Results,
    measure: str,
    calibrations: Mapping[str, str] | None = None,
    others: Sequence[Results] = (),
    sign_share: float | None = None,
    registered: Registration | None = None,
) -> Verdict:
    """Return the verdict on a claim at the scale of the results. Its reasons name data that are not
    the official release.

    Args:
        key: the key of the claim in claims.yaml.
        results: the results of the claim's experiment, or of its study.
        measure: the measure of the claim.
        calibrations: series -> which settings were chosen by the value that the paper reports of
            it.
        others: the results of the `other_experiments` of the claim's quantity, in their order.
        sign_share: the share of rounds in which the paper's own curves have the claimed sign; None
            if unknown.
        registered: when the claim was registered.
    """
    other_results = dict(zip(claim.quantity.other_experiments, others, strict=True))
    view = ExperimentView(claim.experiment, DisplayOptions(measure=measure), results, other_results)
    verdict = _decide(key, claim, view, sign_share)
    if verdict.status == Status.NOT_TESTED:
        return verdict
    # agreement shows nothing if all series were calibrated on the reported values; disagreement
    # still does
    labels, texts = claim.quantity.labels, calibrations or {}
    calibrated = [label for label in labels if label in texts]
    if (
        calibrated == labels
        and verdict.status != Status.CONTRADICTED
        and verdict.lean != rules.AGAINST
    ):
        verdict = replace(verdict, status=Status.NOT_TESTED, lean="")
    reasons = [
        make_reason(ReasonKind.CALIBRATED, series=label, text=texts[label]) for label in calibrated
    ]
    # data that are not the official release
    datasets = sorted(
        {run["dataset"] for experiment in (results, *others) for run in experiment.runs()}
    )
    if copies := [
        name for name in datasets if source_label.parse_label(name)[1] != source_label.OFFICIAL
    ]:
        reasons.append(make_reason(ReasonKind.COPIES, data=", ".join(copies)))
    return replace(verdict, reasons=[*verdict.reasons, *reasons], registered=registered)


def _decide(key: str, claim: Claim, view: ExperimentView, sign_share: float | None) -> Verdict:
    """Return the verdict before calibrations and data are considered."""
    verdict = Verdict(key, claim, view.measure, Status.NOT_TESTED, [])
    quantity = view.results.at_scale(claim.scales, claim.quantity)
    for results in (view.results, *view.other_results.values()):
        missing = [label for label in quantity.labels if label in results.unfinished_series]
        if absent := results.missing_reason or (unfinished(missing) if missing else None):
            return replace(verdict, reasons=[make_reason(ReasonKind.NOT_RUN, text=str(absent))])
    values, reasons = quantity.evaluate(view)
    computable = not quantity.diverged(view) and not quantity.missing(view)
    ours, samples = (quantity.estimate(view), quantity.samples(view)) if values else (None, {})
    arrivals = _arrivals(quantity, view) if computable and (reasons or claim.expected) else ""
    condition = "" if view.comparable else rules.condition(claim, quantity, view.measure)
    verdict = replace(verdict, ours=ours, samples=samples, arrivals=arrivals, condition=condition)
    if untestable := rules.not_testable(claim, quantity, view, sign_share):
        return replace(verdict, reasons=untestable)
    contrasts = rules.claimed_contrasts(claim, quantity, view, ours) if ours else []
    status, lean, reasons = rules.judge(claim, quantity, view, contrasts, ours, reasons)
    reasons = [*reasons, *(quantity.remarks(view) if values else [])]
    return replace(
        verdict, status=status, lean=lean, reasons=reasons, p=rules.p_value(quantity, contrasts)
    )


def _arrivals(quantity: Quantity, view: ExperimentView) -> str:
    """Return how many seeds of each series reach the target; empty for a quantity without a
    target."""
    texts = {label: quantity.arrivals_text(view, label) for label in quantity.labels}
    return "; ".join(f"{label}: {text}" for label, text in texts.items() if text)
