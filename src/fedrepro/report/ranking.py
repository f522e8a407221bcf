"""Ranks of series over experiments: mean ranks, Friedman's test and Nemenyi's critical difference (Demšar 2006, "Statistical
comparisons of classifiers over multiple data sets"). Each experiment counts once, by its mean over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.statistics import EPSILON, mean, mean_last

LEVEL = 0.05


@dataclass(frozen=True)
class Ranking:
    """Mean ranks; 1 is best. `p` is that of Friedman's test, None if it is not defined; series whose mean ranks differ by less
    than `critical_difference` are not separated at 5 % (Nemenyi)."""

    mean_ranks: dict[str, float]  # best first
    panels: int
    p: float | None
    critical_difference: float

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Return the first and the last place, from 0, of each largest group of series that are not separated."""
        ranks = list(self.mean_ranks.values())
        ends = [max(j for j, rank in enumerate(ranks) if rank - first <= self.critical_difference + EPSILON) for first in ranks]
        return [(i, end) for i, end in enumerate(ends) if end > i and (i == 0 or end > ends[i - 1])]


def rank(panels: Sequence[Mapping[str, float]]) -> Ranking:
    """Rank the series that all panels have, by their values in each; a higher value is better, equal ones share a mean rank."""
    from scipy.stats import friedmanchisquare, studentized_range  # slow to import

    labels = [label for label in panels[0] if all(label in panel for panel in panels)]
    ranks = [[_place(panel[label], [panel[other] for other in labels]) for label in labels] for panel in panels]
    means = {label: mean([row[place] for row in ranks]) for place, label in enumerate(labels)}
    tested = len(labels) > 2 and len(panels) > 1
    samples = [[row[place] for row in ranks] for place in range(len(labels))]
    p = float(friedmanchisquare(*samples).pvalue) if tested else None
    quantile = float(studentized_range.ppf(1 - LEVEL, len(labels), math.inf)) / math.sqrt(2) if len(labels) > 1 else 0.0
    difference = quantile * math.sqrt(len(labels) * (len(labels) + 1) / (6 * len(panels)))
    return Ranking(dict(sorted(means.items(), key=lambda item: item[1])), len(panels), p, difference)


def _place(value: float, values: Sequence[float]) -> float:
    """Return the rank of one of the values, from the highest; those that differ by rounding errors share a mean rank."""
    return 0.5 + sum((other > value + EPSILON) + (other >= value - EPSILON) for other in values) / 2


def rank_series(panels: Sequence[ExperimentView], last: int) -> Ranking:
    """Rank the series of some experiments by the mean of their `last` rounds; one with a diverged run is last."""
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


def sentences(ranking: Ranking) -> list[str]:
    """Return sentences on the tests, each without its full stop."""
    caveat = "too small where set-ups share images or seeds, since the test takes them as independent"
    test = "" if ranking.p is None else f"; Friedman's test of equal ranks: p = {ranking.p:.2g}, {caveat}"
    return [
        f"Mean rank over {ranking.panels} set-up{'s' if ranking.panels > 1 else ''}, 1 is best{test}",
        f"Ranks that differ by less than {ranking.critical_difference:.2f} are not separated (Nemenyi, 5 %)",
    ]
