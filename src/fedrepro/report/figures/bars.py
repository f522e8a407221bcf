"""Grouped bars: a group for each experiment, in it a bar for each series, its height any cell."""

from typing import Any, ClassVar

from fedrepro.report.figures import _cells, base
from fedrepro.report.figures._style import bar_style, draw_grid_lines, mean_bar, series_styles, wrap_label
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.numbers import ROUNDS
from fedrepro.report.palette import SeriesStyle

WIDTH = 0.8  # of a group
NEAR = 0.7  # of the last round: a bar as high as that may be as high because nobody looked further


class Figure(_cells.QuantityFigure):
    alt_text: ClassVar = "one bar per method, grouped by experiment"
    height: ClassVar = 2.5

    def draw(self, axes: Any, evidence: PaperData) -> None:
        panels = self.available_panels(evidence)
        labels = list(dict.fromkeys(label for panel in panels for label in panel.results.labels))
        looks, width = series_styles(evidence, [panel.results for panel in panels]), WIDTH / len(labels)
        for place, label in enumerate(labels):
            shift = (place - (len(labels) - 1) / 2) * width
            self._series(axes, panels, label, shift, width, looks[label])
        for place, last in enumerate(self._ends(panels)):
            axes.plot([place - 0.48, place + 0.48], [last, last], color="0.5", linewidth=0.6, zorder=0)
        axes.set(ylabel=self.axis_label(evidence), xlim=(-0.6, len(panels) - 0.4))
        axes.set_xticks(range(len(panels)), [wrap_label(panel.name, len(panels)) for panel in panels])
        axes.margins(y=0.12)
        draw_grid_lines(axes)

    def explanations(self, evidence: PaperData) -> list[str]:
        panels = self.available_panels(evidence)
        text = base.emphasis_sentence(evidence, [panel.results for panel in panels], "Framed")
        if self._ends(panels):
            text.append("Grey line: the last round, beyond which nobody looked.")
        return [*text, *super().explanations(evidence)]

    def _ends(self, panels: list) -> list[int]:
        """The last round of each panel, where bars are rounds and one comes near it."""
        if self.quantity_of("", 0).unit(panels[0].measure) is not ROUNDS:
            return []
        ends = [max(int(row["round"]) for row in panel.results.rows) for panel in panels]
        tops = [
            value.mean for panel in panels for label in panel.results.labels if (value := self.mean_over_seeds(panel, label))
        ]
        return ends if max(tops, default=0) > NEAR * min(ends) else []

    def _series(self, axes: Any, panels: list, label: str, shift: float, width: float, look: SeriesStyle) -> None:
        for place, panel in enumerate(panels):
            value = self.mean_over_seeds(panel, label) if label in panel.results.labels else None
            if value is None:
                axes.annotate(
                    "none", (place + shift, 0), (0, 2), textcoords="offset points", ha="center", fontsize=5, rotation=90
                )
            else:
                mean_bar(axes, place + shift, 0.92 * width, value, bar_style(look))
        axes.scatter([], [], marker="s", color=look.colour, label=label)
