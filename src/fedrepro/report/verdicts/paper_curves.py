"""What the curves that a paper plots say on a claim of its text or tables: where they contradict it, the verdict tells; where
their sign changes on the way, shorter runs than the paper's are not held against it."""

from collections.abc import Mapping
from dataclasses import replace

from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView
from fedrepro.report.reasons import reasons_sentence
from fedrepro.report.statistics import EPSILON, Curve
from fedrepro.report.verdicts.claim import Claim
from fedrepro.report.verdicts.rules import decimals

SEED = 0  # whose run the paper's curves are taken for


def contradiction(experiments: Mapping[str, DisplayOptions], claim: Claim, plotted: Mapping[str, Curve]) -> str:
    """What the claim's cell finds in the digitised curves, `plotted`, as if they were one seed's; empty where that is what the
    claim says, up to its tolerance, or where its series, or the round in question, are not plotted."""
    cell, shown, curves = claim.quantity, claim.ref.resolved(experiments), _curves(experiments, claim, plotted)
    if not curves:
        return ""
    rows = [
        {"series": label, "seed": str(SEED), "round": str(round), shown.measure: str(value)}
        for label, curve in curves.items()
        for round, value in curve
    ]
    runs = {label: {"runs": [{"seed": SEED, "status": "finished"}]} for label in curves}
    panel = ExperimentView(claim.experiment, shown, Results({"series": runs, "compare": "full"}, rows))
    if cell.missing(panel):  # e.g. the round of the claim is not among those that were read off
        return ""
    values, reasons = cell.evaluate(panel)
    if reasons:
        return reasons_sentence([replace(one, seeds=()) for one in reasons])
    if claim.expected:
        agrees = all(contrast.mean * claim.expected.sign > EPSILON for contrast in cell.contrasts(panel))
    else:
        agrees = abs(values[0] - claim.reported) <= claim.tolerance + EPSILON
    return "" if agrees else cell.unit(panel.measure).format(values[0], decimals(claim, panel.measure))


def sign_share(experiments: Mapping[str, DisplayOptions], claim: Claim, plotted: Mapping[str, Curve]) -> float | None:
    """Of a claimed difference at the end of a run: in which part of the rounds that both digitised curves have, its sign is
    there; None of other claims, or where its series are not plotted."""
    cell, curves = claim.quantity, _curves(experiments, claim, plotted)
    if not curves or cell.kind != "difference" or claim.expected or not cell.last or claim.reported == 0:
        return None
    series, baseline = (dict(curves[label]) for label in cell.labels)
    rounds = series.keys() & baseline.keys()
    return sum((series[round] - baseline[round]) * claim.reported > 0 for round in rounds) / len(rounds) if rounds else None


def _curves(experiments: Mapping[str, DisplayOptions], claim: Claim, plotted: Mapping[str, Curve]) -> dict[str, Curve]:
    """The digitised curves of a claim's series; empty where they are not plotted, or the claim is on something else."""
    cell, shown, own = claim.quantity, claim.ref.resolved(experiments), experiments[claim.experiment]
    if (
        not cell.from_curves
        or cell.study
        or cell.other_experiments
        or shown.measure != own.measure
        or not shown.reported.keys() >= set(cell.labels)
    ):
        return {}
    return {label: plotted[shown.reported[label]] for label in cell.labels}
