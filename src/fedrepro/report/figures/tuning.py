"""Scores of the trials of each tuned series: how much the choice of its settings matters."""

from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Any, ClassVar

from fedrepro.core.metrics import MEASURES
from fedrepro.report.figures import base
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import display_factor
from fedrepro.report.tables.base import PanelRefs
from fedrepro.runs.reasons import MissingKind, MissingReason


class Figure(base.Figure):
    """A panel for each experiment; trials that diverged are left out."""

    panels: PanelRefs
    alt_text: ClassVar = "range of the scores of trials by method"
    height: ClassVar = 3.4

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def check(self, checker: ReferenceChecker) -> None:
        for ref in self.panels:
            checker.at("panels").check_ref(ref)

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [_missing_reason(evidence.results[name]) for name in self.experiments({})]
        return None if None in reasons else reasons[0]

    def first_results(self, evidence: PaperData) -> Results:
        return self._shown(evidence)[0]

    def _shown(self, evidence: PaperData) -> list[Results]:
        results = [evidence.results[name] for name in self.experiments({})]
        return [result for result in results if _missing_reason(result) is None]

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        views = [evidence.panel(ref) for ref in self.panels]
        titles = [view.name if len(views) > 1 else "" for view in views]
        return [
            [
                base.FigurePanel(title, partial(_draw, evidence, view.results), _missing_reason(view.results))
                for title, view in zip(titles, views, strict=True)
            ]
        ]

    def explanations(self, evidence: PaperData) -> list[str]:
        return [
            "A line joins the worst and the best trial of a method, the mark on it is the median; the dot is evaluated.",
            base.data_sentence(self._shown(evidence)),
        ]

    def csv_rows(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["experiment", "series", "trial", "score"]]
        for result in self._shown(evidence):
            for label, scores in _scores(result).items():
                rows += [[result.note["experiment"], label, place, f"{score:.6g}"] for place, score in enumerate(scores)]
        return rows


def _missing_reason(results: Results) -> MissingReason | None:
    return results.missing_reason or (None if _scores(results) else MissingReason(MissingKind.NO_VALUES))


def _scores(results: Results) -> dict[str, list[float]]:
    """Return the finite scores of each tuned series, in the unit of the axis."""
    scores = {}
    for label, series in results.note["series"].items():
        if tuned := series.get("tuned"):
            factor = display_factor(MEASURES[tuned["by"]])
            scores[label] = [factor * score for score in tuned["scores"] if score is not None]
    return scores


def _draw(evidence: PaperData, results: Results, axes: Any) -> None:
    styles, scores = evidence.styles_of(results), _scores(results)
    measures = {MEASURES[series["tuned"]["by"]] for series in results.note["series"].values() if "tuned" in series}
    for place, (label, values) in enumerate(scores.items()):
        colour = styles[label].colour
        axes.plot([min(values), max(values)], [place, place], color=colour, linewidth=1.2)
        axes.plot([median(values)], [place], marker="|", markersize=7, color=colour)
        best = results.note["series"][label]["tuned"]["score"]
        axes.plot([best * display_factor(next(iter(measures)))], [place], marker="o", markersize=4, color=colour)
    axes.set_yticks(range(len(scores)), list(scores))
    axes.set_xlabel(next(iter(measures)).axis)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
