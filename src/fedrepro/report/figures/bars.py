"""Figures of one quantity: grouped bars, and lines over a setting of the series."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fedrepro.report import quantities
from fedrepro.report.figures import base
from fedrepro.report.figures._style import (
    PAPER_LABEL,
    PAPER_MARKER,
    bar_style,
    category_colours,
    draw_grid_lines,
    draw_mean_bar,
    series_styles,
    wrap_label,
)
from fedrepro.report.inputs.panel import ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import ROUNDS, format_target
from fedrepro.report.palette import DASHES, MARKERS, METHOD_NAMES, SeriesStyle
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.reasons import Reason, reasons_sentence
from fedrepro.report.statistics import Estimate, estimate
from fedrepro.runs.reasons import MissingKind, MissingReason

GROUP_WIDTH = 0.8
MOST = 2.2  # height of the axis, as a multiple of the highest bar; longer whiskers are cut
# of the last round: the height of a bar from which the length of the runs may limit it
NEAR_END = 0.7


@dataclass(frozen=True)
class Measured:
    """The quantity of a series of one panel, seed by seed in the unit of the axis, or the reasons
    why there is none."""

    view: ExperimentView
    label: str
    values: list[float]
    reasons: list[Reason]

    @property
    def mean(self) -> Estimate | None:
        return estimate(self.values) if self.values else None


class QuantityFigure(base.PanelsFigure):
    """A figure of one quantity for every series. `quantity`: its settings without `series`; a
    target that it needs is by default the experiment's target at the scale."""

    quantity: dict[str, Any]

    def quantity_of(
        self, label: str = "", target: float | None = 0, where: str = "quantity"
    ) -> Quantity:
        """Return the quantity of a series; `where` is the key that errors name."""
        values: dict[str, Any] = {"series": label}
        if target is not None and self.needs_target:
            values["target"] = target
        return quantities.parse_quantity(values | self.quantity, where)

    @property
    def needs_target(self) -> bool:
        fields = quantities.quantity_class(self.quantity.get("kind"), "quantity").model_fields
        return "target" in fields and "target" not in self.quantity

    def check(self, checker: ReferenceChecker) -> None:
        where = f"{checker.file}: {checker.key}.quantity"
        quantities.quantity_class(self.quantity.get("kind"), where)
        for ref in self.panels:
            checker.at("panels").check_experiment(ref.experiment)
            target = next(iter(ref.resolved(checker.display_options).target.values()), None)
            for label in checker.experiments[ref.experiment].get("series", {}):
                self.quantity_of(label, target, where).check(checker.at("quantity"), ref)

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        names = super().sources(figures)
        return list(
            dict.fromkeys(
                [*names, *(results_name(name, self.quantity_of().study_name) for name in names)]
            )
        )

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        """Return the panels with the results that the quantity is computed from: the experiment's
        or its study's."""
        study = self.quantity_of().study_name
        return [
            replace(
                evidence.panel(ref), results=evidence.results[results_name(ref.experiment, study)]
            )
            for ref in self.panels
        ]

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        no_target = (
            MissingReason(MissingKind.NO_TARGET)
            if self.needs_target and view.target is None
            else None
        )
        return view.missing_reason or no_target

    @base.computed_once
    def data(self, evidence: PaperData) -> list[list[Measured]]:
        """Return the quantity of each series of each panel that is shown."""
        return [
            [self._measured(view, label) for label in view.results.labels]
            for view in self.available(evidence)
        ]

    def _measured(self, view: ExperimentView, label: str) -> Measured:
        quantity = self.quantity_of(label, view.target)
        values, reasons = quantity.evaluate(view)
        return Measured(
            view, label, [quantity.unit(view.measure).factor * value for value in values], reasons
        )

    def settings_of(self, one: Measured) -> dict[str, Any]:
        """Return the settings of a series that are columns of the .csv."""
        return {}

    def csv_rows(self, evidence: PaperData) -> list[list]:
        every = [one for panel in self.data(evidence) for one in panel]
        rows = [
            [
                one.view.name,
                one.label,
                *self.settings_of(one).values(),
                *base.csv_spread(one.values),
            ]
            for one in every
        ]
        return [["experiment", "series", *self.settings_of(every[0]), *base.SPREAD_COLUMNS], *rows]

    def axis_label(self, view: ExperimentView) -> str:
        return self.quantity_of("", view.target or 0).label(view.measure)

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return sentences on the quantity, seeds, training, targets, panels that are not shown and
        series without a number."""
        data = self.data(evidence)
        views = [panel[0].view for panel in data]
        results = [view.results for view in views]
        sentences = [
            *filter(None, [self.quantity_of().description(self.views(evidence)[0].measure)])
        ]
        sentences += [base.seeds_sentence(results, "whisker"), *base.training_sentences(results)]
        targets = {
            f"{format_target(view.measure, target)} ({view.name})": None
            for view in views
            if (target := self._target(view)) is not None
        }
        if targets:
            sentences.append(f"Target at this scale: {', '.join(targets)}.")
        sentences += self.not_shown_sentences(evidence)
        for one in (one for panel in data for one in panel if one.reasons):
            sentences.append(
                f"No number for {one.label} ({one.view.name}): {reasons_sentence(one.reasons)}."
            )
        return [*sentences, base.data_sentence(results)]

    def _target(self, view: ExperimentView) -> float | None:
        """Return the target to which rounds, or epochs of new clients, are counted; else None."""
        if self.needs_target:
            return view.target or 0
        return view.results.note.get("settings", {}).get("target")


class Bars(QuantityFigure):
    """Grouped bars: one group per experiment, one bar per series, whose height is a quantity."""

    alt_text: ClassVar = "one bar per method, grouped by experiment"
    height: ClassVar = 2.5

    def is_worth_drawing(self, evidence: PaperData) -> bool:
        """Return whether there is more than one of several groups, and not all bars are rounds that
        end with the runs."""
        data = self.data(evidence)
        lasts = self._last_rounds(data) or [math.inf] * len(data)
        free = [
            one
            for panel, last in zip(data, lasts, strict=True)
            for one in panel
            if one.mean and one.mean.mean < NEAR_END * last
        ]
        return bool(free) and not len(data) == 1 < len(self.panels)

    def draw(self, axes: Any, evidence: PaperData) -> None:
        data = self.data(evidence)
        views = [panel[0].view for panel in data]
        labels = list(dict.fromkeys(one.label for panel in data for one in panel))
        means = [{one.label: one.mean for one in panel if one.mean} for panel in data]
        styles, width = (
            series_styles(evidence, [view.results for view in views]),
            GROUP_WIDTH / len(labels),
        )
        shifts = {
            label: (place - (len(labels) - 1) / 2) * width for place, label in enumerate(labels)
        }
        for label, shift in shifts.items():
            for place, by_label in enumerate(means):
                if label in by_label:
                    draw_mean_bar(
                        axes, place + shift, 0.92 * width, by_label[label], bar_style(styles[label])
                    )
                else:
                    offset = {"xytext": (0, 2), "textcoords": "offset points"}
                    axes.annotate(
                        "none", (place + shift, 0), **offset, ha="center", fontsize=5, rotation=90
                    )
            axes.scatter([], [], marker="s", color=styles[label].colour, label=label)
        for place, (view, by_label) in enumerate(zip(views, means, strict=True)):
            savings = self._paper_savings(evidence, view)
            baseline = next((label for label, share in savings.items() if share == 0), "")
            rounds = by_label.get(baseline)
            # the rounds that a series would need if it saved what the paper reports
            for label, share in savings.items():
                if rounds and label != baseline and label in shifts:
                    axes.plot(
                        [place + shifts[label]],
                        [(1 - share) * rounds.mean],
                        linestyle="none",
                        zorder=4,
                        **PAPER_MARKER,
                    )
            if savings and not place:
                axes.plot([], [], linestyle="none", label=PAPER_LABEL, **PAPER_MARKER)
        for place, last in enumerate(self._last_rounds(data)):
            axes.plot(
                [place - 0.48, place + 0.48], [last, last], color="0.5", linewidth=0.6, zorder=0
            )
        axes.set(ylabel=self.axis_label(self.views(evidence)[0]), xlim=(-0.6, len(views) - 0.4))
        names = [wrap_label(view.name, len(views)) for view in views]
        if self.needs_target:
            targets = [format_target(view.measure, view.target or 0) for view in views]
            names = [f"{name}\n{target}" for name, target in zip(names, targets, strict=True)]
        axes.set_xticks(range(len(views)), names)
        axes.margins(y=0.12)
        heights = [mean.mean for by_label in means for mean in by_label.values()]
        axes.set_ylim(0, min(axes.get_ylim()[1], MOST * max(heights, default=1)))
        draw_grid_lines(axes)

    def explanations(self, evidence: PaperData) -> list[str]:
        views = self.available(evidence)
        sentences = base.emphasis_sentence(evidence, [view.results for view in views], "Framed")
        if any(self._paper_savings(evidence, view) for view in views):
            sentences.append(
                "Diamonds: the shares of the baseline's rounds that the paper reports, times ours."
            )
        if self._last_rounds(self.data(evidence)):
            sentences.append("Grey line: the last round of the runs.")
        return [*sentences, *super().explanations(evidence)]

    def _paper_savings(self, evidence: PaperData, view: ExperimentView) -> dict[str, float]:
        """Return series -> the share of the baseline's rounds that the paper says it saves, if bars
        are rounds to a target."""
        is_rounds = self.quantity.get("kind") == "rounds_to" and view.results.compare != "none"
        return dict(evidence.savings.get(view.results.note["experiment"], {})) if is_rounds else {}

    def _last_rounds(self, data: list[list[Measured]]) -> list[int]:
        """Return the last round of each panel if bars are numbers of rounds and one comes near the
        last; empty otherwise."""
        if self.quantity_of().unit(data[0][0].view.measure) is not ROUNDS:
            return []
        last_rounds = [
            max(int(row["round"]) for row in panel[0].view.results.rows) for panel in data
        ]
        heights = [one.mean.mean for panel in data for one in panel if one.mean]
        return last_rounds if max(heights, default=0) > NEAR_END * min(last_rounds) else []


class Sweep(QuantityFigure):
    """A quantity over a setting of the series, such as the learning rate, on a logarithmic axis:
    one line per experiment. `setting`: the path of a number in the series' settings, such as
    `algorithm.beta`; `label`: its name on the axis. `reference`: series without it, which are
    horizontal lines with their 95 % interval as a band."""

    setting: str
    label: str
    reference: tuple[str, ...] = ()
    alt_text: ClassVar = "a measure over a setting, one line per experiment or method"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            checker.at("reference").check_experiment(ref.experiment, self.reference)
            checker.at("setting").check_positive_setting(
                ref.experiment, self.setting, self.reference
            )

    def settings_of(self, one: Measured) -> dict[str, Any]:
        return {self.setting: one.view.setting(one.label, self.setting)}

    def draw(self, axes: Any, evidence: PaperData) -> None:
        data = self.data(evidence)
        points = {panel[0].view.name: self._points(panel) for panel in data}
        lines = {name: values for name, values in points.items() if values}
        colours, several = category_colours(list(lines)), len(data) > 1
        method = self._method_name(data[0])
        looks = {
            name: look for by_series in evidence.styles.values() for name, look in by_series.items()
        }
        for place, (name, values) in enumerate(lines.items()):
            xs, means, half_widths = zip(*sorted(values), strict=True)
            style = SeriesStyle(colours[name], MARKERS[place % len(MARKERS)])
            # the style that the swept method has in the paper's other figures, if any
            if len(lines) == 1:
                style = looks.get(method, style)
            label = name if several else method
            axes.plot(
                xs,
                means,
                color=style.colour,
                linewidth=style.line_width,
                label=label,
                **style.marker_options,
            )
            if any(half_widths):
                axes.errorbar(
                    xs,
                    means,
                    half_widths,
                    fmt="none",
                    ecolor=style.colour,
                    elinewidth=0.8,
                    capsize=2,
                )
        for number, panel in enumerate(data):
            for one, mean in self._references(panel):
                name = f"{one.label}, {one.view.name}" if several else one.label
                colour = evidence.styles_of(one.view.results)[one.label].colour
                dashes = DASHES[1 + (self.reference.index(one.label) + number) % 2]
                axes.axhline(
                    mean.mean, linestyle=(0, dashes), color=colour, linewidth=1, label=name
                )
                if mean.half_width:
                    axes.axhspan(mean.low, mean.high, color=colour, alpha=0.1, linewidth=0)
        axes.set(xlabel=self.label, xscale="log", ylabel=self.axis_label(self.views(evidence)[0]))
        ticks = sorted({x for values in lines.values() for x, *_ in values})
        axes.minorticks_off()
        while not ticks_fit([math.log10(x) for x in ticks]):
            ticks = ticks[::2]
        axes.set_xticks(ticks, [_tick_text(x) for x in ticks])
        if "%" in axes.get_ylabel():
            view, (low, high) = data[0][0].view, axes.get_ylim()
            bounds = self.quantity_of("", view.target).bounds(view.measure)
            axes.set_ylim(max(low, 102 * bounds[0]), min(high, 102 * bounds[1]))
        draw_grid_lines(axes)

    def _points(self, panel: list[Measured]) -> list[tuple[float, float, float]]:
        """Return setting, mean and half of its interval for each series that has both the setting
        and a value."""
        swept = [
            (one.view.setting(one.label, self.setting), one.mean)
            for one in panel
            if one.label not in self.reference
        ]
        return [
            (float(x), mean.mean, mean.half_width or 0.0)
            for x, mean in swept
            if x is not None and mean
        ]

    def _references(self, panel: list[Measured]) -> list[tuple[Measured, Estimate]]:
        """Return the reference series that have a value, with their means."""
        by_label = {one.label: one for one in panel}
        return [
            (by_label[label], mean)
            for label in self.reference
            if label in by_label and (mean := by_label[label].mean)
        ]

    def _method_name(self, panel: list[Measured]) -> str:
        """Return the name of the method that the swept series share, otherwise "ours"."""
        names = {
            one.view.setting(one.label, "algorithm.name")
            for one in panel
            if one.label not in self.reference
        }
        return METHOD_NAMES.get(names.pop(), "ours") if len(names) == 1 else "ours"

    def explanations(self, evidence: PaperData) -> list[str]:
        axis, data = self.axis_label(self.views(evidence)[0]), self.data(evidence)
        sentences = [f"{axis[0].upper()}{axis[1:]} over {self.label}."]
        if self.reference:
            dashes = "Dashed and dotted" if len(self.reference) * len(data) > 1 else "Dashed"
            drawn = any(mean.half_width for panel in data for _, mean in self._references(panel))
            band = ", with the interval as a band" if drawn else ""
            sentences.append(
                f"{dashes}: {' and '.join(self.reference)}, without {self.label}{band}."
            )
        return [*sentences, *super().explanations(evidence)]


def _tick_text(x: float) -> str:
    """Return a number on the horizontal axis, as a power of ten if it is long."""
    exponent = math.log10(x)
    return (
        f"$10^{{{exponent:.0f}}}$"
        if not -3 <= exponent < 4 and exponent == round(exponent)
        else f"{x:g}"
    )


def ticks_fit(ticks: Sequence[float]) -> bool:
    """Return whether each tick has space for its number."""
    gaps = [after - before for before, after in zip(ticks, ticks[1:], strict=False)]
    return not gaps or min(gaps) * 10 >= ticks[-1] - ticks[0]
