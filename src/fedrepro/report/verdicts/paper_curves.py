"""Claims compared with the paper's own plotted curves, as digitised. The verdict notes a
contradiction; if the sign of a difference changes during the paper's run, shorter runs cannot test
it."""

from collections.abc import Mapping
from dataclasses import replace

from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView
from fedrepro.report.quantities.curves import Difference
from fedrepro.report.reasons import reasons_sentence
from fedrepro.report.statistics import EPSILON, Curve
from fedrepro.report.verdicts.claim import Claim
from fedrepro.report.verdicts.rules import decimals

SEED = 0  # stands for the paper's runs


def contradiction(
    experiments: Mapping[str, DisplayOptions], claim: Claim, plotted: Mapping[str, Curve]
) -> str:
    """Return the value of the claim's quantity in the paper's curves, if it contradicts the claim
    beyond its tolerance.

    Empty if it does not, and if the curves do not show the claim's series or round. `plotted`: key
    -> digitised curve.
    """
    quantity, names = claim.quantity, [claim.experiment, *claim.quantity.other_experiments]
    curves = {name: _curves(experiments, claim, name, plotted) for name in names}
    if not all(curves.values()):
        return ""
    shown = claim.ref.resolved(experiments)
    results = {name: _results(curves[name], shown.measure) for name in names}
    view = ExperimentView(claim.experiment, shown, results[claim.experiment], results)
    if quantity.missing(view):  # e.g. the round of the claim was not digitised
        return ""
    _, reasons = quantity.evaluate(view)
    if reasons:
        return reasons_sentence([replace(reason, seeds=()) for reason in reasons])
    value = quantity.estimate(view).mean
    if claim.expected:
        agrees = all(
            contrast.mean * claim.expected.sign > EPSILON for contrast in quantity.contrasts(view)
        )
    else:
        agrees = (
            abs(value - claim.reported_number) <= claim.allowed(claim.reported_runs or 1) + EPSILON
        )
    return (
        "" if agrees else quantity.unit(view.measure).format(value, decimals(claim, view.measure))
    )


def sign_share(
    experiments: Mapping[str, DisplayOptions], claim: Claim, plotted: Mapping[str, Curve]
) -> float | None:
    """Return the share of rounds in which the paper's curves have the sign of a claimed difference
    at the end of a run.

    None for other claims, and if the curves of the claim's series are not plotted or have no round
    in common.
    """
    quantity, curves = claim.quantity, _curves(experiments, claim, claim.experiment, plotted)
    if (
        not curves
        or not isinstance(quantity, Difference)
        or claim.expected
        or not quantity.last
        or quantity.other_experiments
    ):
        return None
    series, baseline = (dict(curves[label]) for label in quantity.labels)
    rounds = series.keys() & baseline.keys()
    if claim.reported == 0 or not rounds:
        return None
    return sum(
        (series[round] - baseline[round]) * claim.reported_number > 0 for round in rounds
    ) / len(rounds)


def _curves(
    experiments: Mapping[str, DisplayOptions], claim: Claim, name: str, plotted: Mapping[str, Curve]
) -> dict[str, Curve]:
    """Return series -> the paper's curve for the series of a claim in an experiment; empty if they
    do not suffice for its quantity."""
    quantity, shown = claim.quantity, experiments.get(name, DisplayOptions())
    if (
        not quantity.from_curves
        or quantity.study_name
        or claim.ref.resolved(experiments).measure != shown.measure
    ):
        return {}
    if not shown.reported.keys() >= set(quantity.labels):
        return {}
    return {label: plotted[shown.reported[label]] for label in quantity.labels}


def _results(curves: Mapping[str, Curve], measure: str) -> Results:
    """Return curves as the results of one seed."""
    rows = [
        {"series": label, "seed": str(SEED), "round": str(round), measure: str(value)}
        for label, curve in curves.items()
        for round, value in curve
    ]
    runs = {label: {"runs": [{"seed": SEED, "status": "finished"}]} for label in curves}
    return Results({"series": runs, "compare": "full"}, rows)
