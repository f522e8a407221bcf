"""Grouped bars: a group for each experiment, in it a bar for each series, its height any cell; beside it what the paper
reports."""

from typing import Any, ClassVar

from fedrepro.config import NonNegative
from fedrepro.report.evidence import Evidence
from fedrepro.report.figures import _cells
from fedrepro.report.figures._style import REPORTED, colours, grid, scale_note
from fedrepro.report.known import Known

WIDTH = 0.8  # of a group


class Figure(_cells.OfCells):
    """`reported`: series -> {panel: the paper's number}, as it stands on the axis."""

    reported: dict[str, dict[str, NonNegative]] = {}
    shows: ClassVar = "one bar per method, grouped by experiment"
    height: ClassVar = 2.5

    def check(self, known: Known) -> None:
        super().check(known)
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.reported.items():
            known.at("reported").names("panel of this figure", values, panels)
            for key in values:
                known.at("reported").experiment(panels[key].experiment, [label])

    def draw(self, axes: Any, evidence: Evidence) -> None:
        panels = self.shown(evidence)
        labels = list(dict.fromkeys(label for panel in panels for label in panel.results.labels))
        colour, width = colours([panel.results for panel in panels]), WIDTH / len(labels)
        for place, label in enumerate(labels):
            shift = (place - (len(labels) - 1) / 2) * width
            self._series(axes, panels, label, shift, width, colour[label])
        if any(panel.full for panel in panels) and self.reported:
            axes.errorbar([], [], [], label="in the paper", **REPORTED)
        axes.set(ylabel=self.axis(evidence), xlim=(-0.6, len(panels) - 0.4))
        axes.set_xticks(range(len(panels)), [panel.key.replace(" ", "\n") for panel in panels])
        axes.margins(y=0.12)
        scale_note(axes, panels[0].results, top=True)
        grid(axes)

    def _series(self, axes: Any, panels: list, label: str, shift: float, width: float, colour: Any) -> None:
        for place, panel in enumerate(panels):
            value = self.value(panel, label) if label in panel.results.labels else None
            if value is None:
                axes.annotate(
                    "none", (place + shift, 0), (0, 2), textcoords="offset points", ha="center", fontsize=5, rotation=90
                )
            else:
                whisker = {"capsize": 1.5, "error_kw": {"linewidth": 0.8, "ecolor": "0.4"}}
                axes.bar([place + shift], [value.mean], 0.92 * width, yerr=value.std, color=colour, linewidth=0, **whisker)
            if panel.full and panel.key in self.reported.get(label, {}):
                axes.errorbar([place + shift], [self.reported[label][panel.key]], **REPORTED)
        axes.scatter([], [], marker="s", color=colour, label=label)
