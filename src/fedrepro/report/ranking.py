"""Ranks of series over experiments: mean ranks and Friedman's test (Demšar 2006, "Statistical
comparisons of classifiers over multiple data sets"). Each experiment counts once, by its mean over
seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.statistics import EPSILON, mean, mean_last


@dataclass(frozen=True)
class Ranking:
    """Mean ranks; 1 is best. `p` is that of Friedman's test, None if it is not defined."""

    mean_ranks: dict[str, float]  # best first
    panels: int
    p: float | None


def rank(panels: Sequence[Mapping[str, float]]) -> Ranking:
    """Rank the series that all panels have, by their values in each; a higher value is better,
    equal ones share a mean rank."""
    from scipy.stats import friedmanchisquare  # slow to import

    labels = [label for label in panels[0] if all(label in panel for panel in panels)]
    ranks = [
        [_place(panel[label], [panel[other] for other in labels]) for label in labels]
        for panel in panels
    ]
    means = {label: mean([row[place] for row in ranks]) for place, label in enumerate(labels)}
    tested = len(labels) > 2 and len(panels) > 1
    samples = [[row[place] for row in ranks] for place in range(len(labels))]
    p = float(friedmanchisquare(*samples).pvalue) if tested else None
    return Ranking(dict(sorted(means.items(), key=lambda item: item[1])), len(panels), p)


def _place(value: float, values: Sequence[float]) -> float:
    """Return the rank of one of the values, from the highest; those that differ by rounding errors
    share a mean rank."""
    return 0.5 + sum((other > value + EPSILON) + (other >= value - EPSILON) for other in values) / 2


def rank_series(panels: Sequence[ExperimentView], last: int) -> Ranking:
    """Rank the series of some experiments by the mean of their `last` rounds; one with a diverged
    run is last."""
    return rank([_values(panel, last) for panel in panels])


def _values(panel: ExperimentView, last: int) -> dict[str, float]:
    """Return the value of each series that was measured."""
    values = {}
    for label in panel.results.labels:
        finals = [panel.sign * mean_last(curve, last) for curve in panel.curves(label).values()]
        if panel.results.diverged_runs(label):
            values[label] = -math.inf
        elif finals:
            values[label] = mean(finals)
    return values


def sentence(ranking: Ranking) -> str:
    """Return a sentence on the test, without its full stop."""
    caveat = (
        "too small where set-ups share images or seeds, since the test takes them as independent"
    )
    test = (
        ""
        if ranking.p is None
        else f"; Friedman's test of equal ranks: p = {ranking.p:.2g}, {caveat}"
    )
    return (
        f"Mean rank over {ranking.panels} set-up{'s' if ranking.panels > 1 else ''}, 1 is "
        f"best{test}"
    )
