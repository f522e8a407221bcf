"""Figures of a row per series: mean ranks over experiments, and scores of the trials of tuned
series."""

from functools import partial
from statistics import median
from typing import Any, ClassVar

from fedrepro.config.types import Count
from fedrepro.core.metrics import MEASURES
from fedrepro.report import ranking
from fedrepro.report.figures import base
from fedrepro.report.figures._style import series_styles
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.numbers import display_factor
from fedrepro.report.tables.base import join_sentences, measures_phrase
from fedrepro.runs.reasons import MissingKind, MissingReason


class MeanRanks(base.PanelsFigure):
    """Series by mean rank, by the mean of the `last` rounds of each experiment."""

    last: Count
    alt_text: ClassVar = "mean ranks of methods"
    height: ClassVar = 3.4

    @base.computed_once
    def data(self, evidence: PaperData) -> ranking.Ranking:
        return ranking.rank_series(self.available(evidence), self.last)

    def draw(self, axes: Any, evidence: PaperData) -> None:
        found = self.data(evidence)
        styles = series_styles(evidence, [view.results for view in self.available(evidence)])
        for place, (label, value) in enumerate(found.mean_ranks.items()):
            axes.plot(
                [value],
                [place],
                marker="o",
                markersize=4,
                color=styles[label].colour,
                linestyle="none",
            )
        axes.set(xlabel="mean rank", xlim=(0.5, len(found.mean_ranks) + 0.5))
        _name_rows(axes, list(found.mean_ranks))

    def explanations(self, evidence: PaperData) -> list[str]:
        views = self.available(evidence)
        return [
            join_sentences([f"By {measures_phrase(views)}", ranking.sentence(self.data(evidence))]),
            *self.not_shown_sentences(evidence),
            base.data_sentence([view.results for view in views]),
        ]

    def csv_rows(self, evidence: PaperData) -> list[list]:
        return [
            ["series", "mean_rank"],
            *([label, f"{rank:.6g}"] for label, rank in self.data(evidence).mean_ranks.items()),
        ]


class Trials(base.PanelsFigure):
    """Scores of the trials of each tuned series: how much the choice of its settings matters. A
    panel for each experiment; trials that diverged are left out."""

    alt_text: ClassVar = "range of the scores of trials by method"
    height: ClassVar = 3.4

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        return view.missing_reason or (
            None if _scores(view.results) else MissingReason(MissingKind.NO_VALUES)
        )

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        views = self.views(evidence)
        titles = [view.name if len(views) > 1 else "" for view in views]
        drawn = zip(titles, views, strict=True)
        return [
            [
                base.FigurePanel(
                    title, partial(_draw_trials, evidence, one.results), self.why_missing(one)
                )
                for title, one in drawn
            ]
        ]

    def explanations(self, evidence: PaperData) -> list[str]:
        return [
            "A line joins the worst and the best trial of a method, the mark on it is the "
            "median; the dot is evaluated.",
            base.data_sentence([view.results for view in self.available(evidence)]),
        ]

    def csv_rows(self, evidence: PaperData) -> list[list]:
        scores = {
            view.results.note["experiment"]: _scores(view.results)
            for view in self.available(evidence)
        }
        by_series = [
            (name, label, values)
            for name, found in scores.items()
            for label, values in found.items()
        ]
        rows = [
            [name, label, place, f"{one:.6g}"]
            for name, label, values in by_series
            for place, one in enumerate(values)
        ]
        return [["experiment", "series", "trial", "score"], *rows]


def _scores(results: Results) -> dict[str, list[float]]:
    """Return the finite scores of each tuned series, in the unit of the axis."""
    every = {
        label: series["tuned"]
        for label, series in results.note["series"].items()
        if series.get("tuned")
    }
    factors = {label: display_factor(MEASURES[tuned["by"]]) for label, tuned in every.items()}
    return {
        label: [factors[label] * score for score in tuned["scores"] if score is not None]
        for label, tuned in every.items()
    }


def _draw_trials(evidence: PaperData, results: Results, axes: Any) -> None:
    styles, scores = evidence.styles_of(results), _scores(results)
    for place, (label, values) in enumerate(scores.items()):
        colour, tuned = styles[label].colour, results.note["series"][label]["tuned"]
        measure = MEASURES[tuned["by"]]
        axes.plot([min(values), max(values)], [place, place], color=colour, linewidth=1.2)
        axes.plot([median(values)], [place], marker="|", markersize=7, color=colour)
        axes.plot(
            [tuned["score"] * display_factor(measure)],
            [place],
            marker="o",
            markersize=4,
            color=colour,
        )
        axes.set_xlabel(measure.axis)
    _name_rows(axes, list(scores))


def _name_rows(axes: Any, names: list[str]) -> None:
    """Write the names of rows, the first on top, with grid lines across."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
