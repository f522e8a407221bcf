"""A quantity over a setting of the series, such as the learning rate: one line per experiment.

Series in `reference` do not have the setting and are horizontal lines with their 95 % interval as a band.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from fedrepro.report.figures import _quantity
from fedrepro.report.figures._style import category_colours, draw_grid_lines
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import DASHES, MARKERS, METHOD_NAMES, SeriesStyle


class Figure(_quantity.QuantityFigure):
    """A quantity over a setting. `setting`: the path of a number in the series' settings, such as `algorithm.beta`.
    `reference`: series without it."""

    setting: str
    label: str | None = None  # of the horizontal axis; None: the setting
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
        points_by_panel = {panel.name: self._points(panel) for panel in panels}
        lines = {name: points for name, points in points_by_panel.items() if points}
        colours = category_colours(list(lines))
        for place, (name, points) in enumerate(lines.items()):
            xs, means, half_widths = zip(*sorted(points), strict=True)
            label = name if len(panels) > 1 else self._method_name(panels[0])
            style = self._method_style(evidence, panels[0]) if len(lines) == 1 else None
            style = style or SeriesStyle(colours[name], MARKERS[place % len(MARKERS)])
            axes.plot(xs, means, color=style.colour, linewidth=style.line_width, label=label, **style.marker_options)
            if any(half_widths):
                axes.errorbar(xs, means, half_widths, fmt="none", ecolor=style.colour, elinewidth=0.8, capsize=2)
        for place, panel in enumerate(panels):
            self._draw_references(axes, evidence, panel, place if len(panels) > 1 else None)
        axes.set(xlabel=self.label or self.setting, ylabel=self.axis_label(evidence))
        ticks = sorted({x for points in lines.values() for x, *_ in points})
        if self.log:
            axes.set_xscale("log")
            axes.minorticks_off()
        while not ticks_fit([math.log10(x) for x in ticks] if self.log else ticks):
            ticks = ticks[::2]
        axes.set_xticks(ticks, [_tick_text(x) for x in ticks])
        if "%" in axes.get_ylabel():
            low, high = axes.get_ylim()
            bounds = self.quantity_of("", panels[0].target).bounds(panels[0].measure)
            axes.set_ylim(max(low, 102 * bounds[0]), min(high, 102 * bounds[1]))
        draw_grid_lines(axes)

    @property
    def setting_columns(self) -> list[str]:
        return [self.setting]

    def _method_style(self, evidence: PaperData, panel: ExperimentView) -> SeriesStyle | None:
        """Return the style that the swept method's name has in the paper's other figures, if any."""
        styles: dict[str, SeriesStyle] = {}
        for experiment_styles in evidence.styles.values():
            styles |= experiment_styles
        return styles.get(self._method_name(panel))

    def _points(self, panel: ExperimentView) -> list[tuple[float, float, float]]:
        """Return setting, mean and half of its interval for each series that has both the setting and a value."""
        points = []
        for label in panel.results.labels:
            setting = panel.setting(label, self.setting)
            if label in self.reference or setting is None:
                continue
            if value := self.mean_over_seeds(panel, label):
                points.append((float(setting), value.mean, value.half_width or 0.0))
        return points

    def _draw_references(self, axes: Any, evidence: PaperData, panel: ExperimentView, number: int | None) -> None:
        """Draw the reference series; `number` is the panel's among several, None if it is the only one."""
        for place, label in enumerate(self.reference):
            if value := self.mean_over_seeds(panel, label):
                name = label if number is None else f"{label}, {panel.name}"
                colour = evidence.styles_of(panel.results)[label].colour
                dashes = DASHES[1 + (place + (number or 0)) % 2]
                axes.axhline(value.mean, linestyle=(0, dashes), color=colour, linewidth=1, label=name)
                if value.half_width:
                    axes.axhspan(value.low, value.high, color=colour, alpha=0.1, linewidth=0)

    def _method_name(self, panel: ExperimentView) -> str:
        """Return the name of the method that the swept series share, otherwise "ours"."""
        names = {panel.setting(label, "algorithm.name") for label in panel.results.labels if label not in self.reference}
        return METHOD_NAMES.get(names.pop(), "ours") if len(names) == 1 else "ours"

    def explanations(self, evidence: PaperData) -> list[str]:
        axis, setting = self.axis_label(evidence), self.label or self.setting
        sentences = [f"{axis[0].upper()}{axis[1:]} over {setting}."]
        if self.reference:
            panels = self.available_panels(evidence)
            values = [self.mean_over_seeds(panel, label) for panel in panels for label in self.reference]
            dashes = "Dashed and dotted" if len(self.reference) * len(panels) > 1 else "Dashed"
            band = ", with the interval as a band" if any(value and value.half_width for value in values) else ""
            sentences.append(f"{dashes}: {' and '.join(self.reference)}, without {setting}{band}.")
        return [*sentences, *super().explanations(evidence)]


def _tick_text(x: float) -> str:
    """Return a number on the horizontal axis, as a power of ten if it is long."""
    exponent = math.log10(x) if x > 0 else 0.0
    return f"$10^{{{exponent:.0f}}}$" if not -3 <= exponent < 4 and exponent == round(exponent) else f"{x:g}"


def ticks_fit(ticks: Sequence[float]) -> bool:
    """Return whether each tick has space for its number."""
    gaps = [after - before for before, after in zip(ticks, ticks[1:], strict=False)]
    return not gaps or min(gaps) * 10 >= ticks[-1] - ticks[0]
