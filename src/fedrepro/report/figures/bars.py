"""Grouped bars: one group per experiment, one bar per series, whose height is a quantity."""

from typing import Any, ClassVar

from fedrepro.report.figures import _quantity, base
from fedrepro.report.figures._style import (
    PAPER_LABEL,
    PAPER_MARKER,
    bar_style,
    draw_grid_lines,
    draw_mean_bar,
    series_styles,
    wrap_label,
)
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.numbers import ROUNDS, format_target
from fedrepro.report.palette import SeriesStyle

GROUP_WIDTH = 0.8
MOST = 2.2  # height of the axis, as a multiple of the highest bar; longer whiskers are cut
NEAR_END = 0.7  # of the last round: the height of a bar from which the length of the runs may limit it


class Figure(_quantity.QuantityFigure):
    alt_text: ClassVar = "one bar per method, grouped by experiment"
    height: ClassVar = 2.5

    def draw(self, axes: Any, evidence: PaperData) -> None:
        panels = self.available_panels(evidence)
        labels = list(dict.fromkeys(label for panel in panels for label in panel.results.labels))
        styles, width = series_styles(evidence, [panel.results for panel in panels]), GROUP_WIDTH / len(labels)
        for place, label in enumerate(labels):
            shift = (place - (len(labels) - 1) / 2) * width
            self._draw_series(axes, panels, label, shift, width, styles[label])
        for place, panel in enumerate(panels):
            self._draw_paper_savings(axes, evidence, panel, place, labels, width)
        for place, last in enumerate(self._last_rounds(panels)):
            axes.plot([place - 0.48, place + 0.48], [last, last], color="0.5", linewidth=0.6, zorder=0)
        axes.set(ylabel=self.axis_label(evidence), xlim=(-0.6, len(panels) - 0.4))
        names = [wrap_label(panel.name, len(panels)) for panel in panels]
        if self._needs_target:
            names = [
                f"{name}\n{format_target(panel.measure, panel.target or 0)}" for name, panel in zip(names, panels, strict=True)
            ]
        axes.set_xticks(range(len(panels)), names)
        axes.margins(y=0.12)
        means = [self.mean_over_seeds(panel, label) for panel in panels for label in panel.results.labels]
        axes.set_ylim(0, min(axes.get_ylim()[1], MOST * max([mean.mean for mean in means if mean], default=1)))
        draw_grid_lines(axes)

    def explanations(self, evidence: PaperData) -> list[str]:
        panels = self.available_panels(evidence)
        sentences = base.emphasis_sentence(evidence, [panel.results for panel in panels], "Framed")
        if any(self._paper_savings(evidence, panel) for panel in panels):
            sentences.append("Diamonds: the shares of the baseline's rounds that the paper reports, times ours.")
        if self._last_rounds(panels):
            sentences.append("Grey line: the last round of the runs.")
        return [*sentences, *super().explanations(evidence)]

    def _paper_savings(self, evidence: PaperData, panel: ExperimentView) -> dict[str, float]:
        """Return series -> the share of the baseline's rounds that the paper says it saves, if bars are rounds to a target."""
        is_rounds = self.quantity.get("kind") == "rounds_to" and panel.results.compare != "none"
        return dict(evidence.savings.get(panel.results.note["experiment"], {})) if is_rounds else {}

    def _draw_paper_savings(
        self, axes: Any, evidence: PaperData, panel: ExperimentView, place: int, labels: list[str], width: float
    ) -> None:
        """Mark the rounds that a series would need if it saved what the paper reports."""
        savings = self._paper_savings(evidence, panel)
        baseline = next((label for label, share in savings.items() if share == 0), None)
        rounds = self.mean_over_seeds(panel, baseline) if baseline in panel.results.labels else None
        for label, share in savings.items():
            if rounds and label != baseline and label in labels:
                x = place + (labels.index(label) - (len(labels) - 1) / 2) * width
                axes.plot([x], [(1 - share) * rounds.mean], linestyle="none", zorder=4, **PAPER_MARKER)
        if savings and not place:
            axes.plot([], [], linestyle="none", label=PAPER_LABEL, **PAPER_MARKER)

    def _last_rounds(self, panels: list[ExperimentView]) -> list[int]:
        """Return the last round of each panel if bars are numbers of rounds and one comes near the last; empty otherwise."""
        if self.quantity_of("", 0).unit(panels[0].measure) is not ROUNDS:
            return []
        last_rounds = [max(int(row["round"]) for row in panel.results.rows) for panel in panels]
        heights: list[float] = []
        for panel in panels:
            means = [self.mean_over_seeds(panel, label) for label in panel.results.labels]
            heights += [mean.mean for mean in means if mean]
        return last_rounds if max(heights, default=0) > NEAR_END * min(last_rounds) else []

    def _draw_series(
        self, axes: Any, panels: list[ExperimentView], label: str, shift: float, width: float, style: SeriesStyle
    ) -> None:
        for place, panel in enumerate(panels):
            mean = self.mean_over_seeds(panel, label) if label in panel.results.labels else None
            if mean is None:
                offset = {"xytext": (0, 2), "textcoords": "offset points"}
                axes.annotate("none", (place + shift, 0), **offset, ha="center", fontsize=5, rotation=90)
            else:
                draw_mean_bar(axes, place + shift, 0.92 * width, mean, bar_style(style))
        axes.scatter([], [], marker="s", color=style.colour, label=label)
