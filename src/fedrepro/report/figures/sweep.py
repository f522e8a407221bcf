"""Over a setting: x is a number in each series' resolved settings, y a cell of the series; one line for each
experiment. Series in `reference` do not have it: each is a horizontal line with its band of one standard deviation."""

import math
from typing import Any, ClassVar

from fedrepro.report.figures import _cells
from fedrepro.report.figures._style import category_colours, draw_grid_lines
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import DASHES, MARKERS, METHOD_NAMES, SeriesStyle


class Figure(_cells.QuantityFigure):
    """`setting`: such as `algorithm.beta`. `cell`: what is computed of each series, without its name."""

    setting: str
    label: str | None = None  # of the axis; else the setting
    log: bool = False
    reference: tuple[str, ...] = ()
    alt_text: ClassVar = "a measure over a setting, one line per experiment or method"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            checker.at("reference").check_experiment(ref.experiment, self.reference)
            checker.at("setting").check_numeric_setting(ref.experiment, self.setting, self.reference, self.log)

    def draw(self, axes: Any, evidence: PaperData) -> None:
        panels = self.available_panels(evidence)
        lines = {panel.name: points for panel in panels if (points := self._points(panel))}
        colours = category_colours(list(lines))
        for place, (key, points) in enumerate(lines.items()):
            xs, means, stds = zip(*sorted(points), strict=True)
            name = key if len(panels) > 1 else self._method(panels[0])
            look = self._look(evidence, panels[0]) if len(lines) == 1 else None
            look = look or SeriesStyle(colours[key], MARKERS[place % len(MARKERS)])
            axes.plot(xs, means, color=look.colour, linewidth=look.line_width, label=name, **look.marker_options)
            if any(stds):
                axes.errorbar(xs, means, stds, fmt="none", ecolor=look.colour, elinewidth=0.8, capsize=2)
        for place, panel in enumerate(panels):
            self._references(axes, evidence, panel, place if len(panels) > 1 else None)
        axes.set(xlabel=self.label or self.setting, ylabel=self.axis_label(evidence))
        ticks = sorted({x for points in lines.values() for x, *_ in points})
        if self.log:
            axes.set_xscale("log")
            axes.minorticks_off()
        places = [math.log10(x) for x in ticks] if self.log else ticks
        if ticks_fit(places):
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        draw_grid_lines(axes)

    @property
    def settings(self) -> list[str]:
        return [self.setting]

    def _look(self, evidence: PaperData, panel: ExperimentView) -> SeriesStyle | None:
        """Of the one line that is no reference: what its method's name has in the paper's other figures, if it has a look."""
        known = {label: look for own in evidence.styles.values() for label, look in own.items()}
        return known.get(self._method(panel))

    def _points(self, panel: ExperimentView) -> list[tuple[float, float, float]]:
        """Setting, mean and standard deviation of the series that have a value."""
        found = []
        for label in panel.results.labels:
            at = panel.setting(label, self.setting)
            if label in self.reference or at is None or not (value := self.mean_over_seeds(panel, label)):
                continue
            found.append((float(at), value.mean, value.std or 0.0))
        return found

    def _references(self, axes: Any, evidence: PaperData, panel: ExperimentView, number: int | None) -> None:
        """`number` of the panel, whose name is told; None: there is no other."""
        for place, label in enumerate(self.reference):
            if value := self.mean_over_seeds(panel, label):
                name = label if number is None else f"{label}, {panel.name}"
                look = {"color": evidence.styles_of(panel.results)[label].colour, "linewidth": 1, "label": name}
                axes.axhline(value.mean, linestyle=(0, DASHES[1 + (place + (number or 0)) % 2]), **look)
                if value.std:
                    axes.axhspan(value.mean - value.std, value.mean + value.std, color=look["color"], alpha=0.1, linewidth=0)

    def _method(self, panel: ExperimentView) -> str:
        """What the series are of, where one method has all of them and is told in words."""
        names = {panel.setting(label, "algorithm.name") for label in panel.results.labels if label not in self.reference}
        return METHOD_NAMES.get(names.pop(), "ours") if len(names) == 1 else "ours"

    def explanations(self, evidence: PaperData) -> list[str]:
        axis, setting = self.axis_label(evidence), self.label or self.setting
        text = [f"{axis[0].upper()}{axis[1:]} over {setting}."]
        if self.reference:
            panels = self.available_panels(evidence)
            found = [value for panel in panels for label in self.reference if (value := self.mean_over_seeds(panel, label))]
            level = "Dashed and dotted" if len(self.reference) * len(panels) > 1 else "Dashed"
            band = ", in a band of one standard deviation" if any(value.std for value in found) else ""
            text.append(f"{level}: {' and '.join(self.reference)}, without {setting}{band}.")
        return [*text, *super().explanations(evidence)]


def ticks_fit(ticks: list[float]) -> bool:
    """Whether each has room for its number."""
    gaps = [after - before for before, after in zip(ticks, ticks[1:], strict=False)]
    return not gaps or min(gaps) * 10 >= ticks[-1] - ticks[0]
