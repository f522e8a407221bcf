"""Table of mean ranks over experiments, and of the differences to a baseline, paired by seed."""

import math

from fedrepro.config.types import Count
from fedrepro.report import ranking
from fedrepro.report.inference import common_seeds, over_panels
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, difference_unit, difference_unit_name
from fedrepro.report.statistics import EPSILON, holm, mean_last
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row


class Table(base.Table):
    """Series by mean rank, by the mean of the `last` rounds. Differences to the `baseline` are averaged over the experiments,
    as fixed panels of equal weight."""

    last: Count
    baseline: str
    series_settings = ("baseline",)

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        measures = {ref.resolved(checker.display_options).measure for ref in self.panels}
        if len(measures) > 1:
            checker.at("panels").fail(f"{', '.join(sorted(measures))}: the experiments need one measure")

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        if not panels:
            return []
        ranks = ranking.rank_series(panels, self.last).mean_ranks
        leads = {label: self._leads(panels, label) for label in ranks if label != self.baseline}
        means = {label: over_panels(values) for label, values in leads.items() if values}
        known = {label: one.p for label, one in means.items() if one.p is not None}
        p_values = holm(dict.fromkeys(leads, 1.0) | known) if known else {}  # a series that diverged was compared too
        rows: list[Row] = []
        for label, place in ranks.items():
            row: Row = {"Series": label, "Mean rank": Number(place, 2)}
            row |= dict.fromkeys([self._column(panels[0]), "p (Holm)", "Pairs ahead (%)"], Number())
            if found := means.get(label):
                factor = difference_unit(panels[0].measure).factor
                pairs = [lead for values in leads[label] for lead in values.values()]
                half_width = None if found.half_width is None else factor * found.half_width
                row[self._column(panels[0])] = Number(factor * found.mean, 2, half_width, found.n, signed=True)
                row["p (Holm)"] = _p_value(p_values.get(label) if label in known else None)
                row["Pairs ahead (%)"] = Number(100 * sum(lead > EPSILON for lead in pairs) / len(pairs))
            rows.append(row)
        return rows

    def _column(self, panel: ExperimentView) -> str:
        return f"Above {self.baseline} ({difference_unit_name(panel.measure)})"

    def _leads(self, panels: list[ExperimentView], label: str) -> list[dict[int, float]]:
        """Return how much a series is better than the baseline, by panel and seed; empty if a run of either diverged."""
        if any(panel.results.diverged_runs(one) for panel in panels for one in (label, self.baseline)):
            return []
        leads = []
        for panel in panels:
            ours, baseline = panel.curves(label), panel.curves(self.baseline)
            seeds = sorted(ours.keys() & baseline.keys())
            leads.append({s: panel.sign * (mean_last(ours[s], self.last) - mean_last(baseline[s], self.last)) for s in seeds})
        return leads if common_seeds(leads) else []

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        return [
            f"Mean of the last {'round' if self.last == 1 else f'{self.last} rounds'}: {base.measures_phrase(panels)}",
            ranking.sentence(ranking.rank_series(panels, self.last)),
            f"Above {self.baseline}: for each seed the mean over the set-ups, of equal weight; p: adjusted for all series, "
            "also those with a diverged run (Holm). Pairs ahead: the share of pairs of runs with the same seed in which the "
            "series is better",
        ]


def _p_value(p: float | None) -> Number:
    """Return a p-value with three decimals, or as many as it needs for one digit that is not zero."""
    return Number(p, max(3, math.ceil(-math.log10(p))) if p else 3)
