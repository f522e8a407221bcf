"""Mean ranks over experiments."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fedrepro.config.types import Count
from fedrepro.report import ranking
from fedrepro.report.figures import base
from fedrepro.report.figures._style import series_styles
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.tables.base import PanelRefs, join_sentences, measures_phrase
from fedrepro.runs.reasons import MissingReason


class Figure(base.Figure):
    """Series by mean rank, by the mean of the `last` rounds of each experiment."""

    panels: PanelRefs
    last: Count
    alt_text: ClassVar = "mean ranks of methods"
    height: ClassVar = 3.4

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def check(self, checker: ReferenceChecker) -> None:
        for ref in self.panels:
            checker.at("panels").check_ref(ref)

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [evidence.panel(ref).missing_reason for ref in self.panels]
        return None if None in reasons else reasons[0]

    def _views(self, evidence: PaperData) -> list[ExperimentView]:
        return [view for view in map(evidence.panel, self.panels) if not view.missing_reason]

    def first_results(self, evidence: PaperData) -> Results:
        return self._views(evidence)[0].results

    def draw(self, axes: Any, evidence: PaperData) -> None:
        views = self._views(evidence)
        found = ranking.rank_series(views, self.last)
        styles = series_styles(evidence, [view.results for view in views])
        for place, (label, value) in enumerate(found.mean_ranks.items()):
            axes.plot([value], [place], marker="o", markersize=4, color=styles[label].colour, linestyle="none")
        axes.set_yticks(range(len(found.mean_ranks)), list(found.mean_ranks))
        axes.set(xlabel="mean rank", xlim=(0.5, len(found.mean_ranks) + 0.5))
        axes.invert_yaxis()
        axes.grid(axis="x", color="0.92", linewidth=0.5)
        axes.set_axisbelow(True)

    def explanations(self, evidence: PaperData) -> list[str]:
        views = self._views(evidence)
        words = join_sentences([f"By {measures_phrase(views)}", ranking.sentence(ranking.rank_series(views, self.last))])
        not_shown = {evidence.panel(ref).name: evidence.panel(ref).missing_reason for ref in self.panels}
        results = [view.results for view in views]
        return [
            words,
            *base.not_shown_sentences(not_shown),
            base.data_sentence(results),
        ]

    def csv_rows(self, evidence: PaperData) -> list[list]:
        found = ranking.rank_series(self._views(evidence), self.last)
        return [["series", "mean_rank"], *([label, f"{value:.6g}"] for label, value in found.mean_ranks.items())]
