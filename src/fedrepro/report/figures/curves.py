"""Learning curves over rounds of communication or local epochs: mean over seeds with its 95 %
interval as a band.

The paper's curves are thin and dashed in the same colours; of a paper that prints only final
values, diamonds at the right edge show them. With `smooth`, lines are means over some rounds and
faint lines single rounds. With a `baseline`, curves are differences from it, seed by seed.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from fedrepro.config.types import Count
from fedrepro.core.formatting import count
from fedrepro.report.figures import base
from fedrepro.report.figures._style import (
    PAPER_COLOUR,
    PAPER_DASHES,
    PAPER_LABEL,
    TARGET_LABEL,
    UNFINISHED_SUFFIX,
    draw_band,
    draw_grid_lines,
    draw_paper_values,
    limit_to_lines,
)
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData, calibrated_curves
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import (
    difference_unit_name,
    display_factor,
    format_target,
    measure_unit_name,
)
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.statistics import Curve, Estimate, estimate, grouped, smoothed
from fedrepro.runs.reasons import MissingReason

THIN = {"linestyle": PAPER_DASHES, "linewidth": 0.8, "alpha": 0.9}  # the paper's curves among ours
WIDE = 0.3  # of the axis: in place of bands that are wider the single seeds are drawn
# left, bottom, width and height of the frame in the axes, below the curves
INSET = (0.34, 0.1, 0.64, 0.52)
MANY = 12  # series; of more, neither is drawn, and only the best have colours
BEST = 4  # of many series: those with colours, besides the first
LEVEL_DASHES = ((0, (1, 1)), (0, (6, 2)))  # of horizontal lines
MARGIN = 0.02  # of the rounds: space for the last marker
Share = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


@dataclass(frozen=True)
class Line:
    """The numbers of a series in the units of the axes, x -> those of the seeds, and their means.
    `single`: of single rounds, where the line averages several."""

    values: Mapping[int, list[float]]
    estimates: Mapping[int, Estimate]
    single: Mapping[int, float]
    seeds: int


@dataclass(frozen=True)
class CurvesData:
    """What a figure of curves shows."""

    view: ExperimentView
    window: int  # measured rounds that a line averages
    lines: Mapping[str, Line]  # by series
    grey: list[str]  # series without colours of their own
    wide: float | None  # the median half width of the intervals if their bands are not drawn
    reported: Mapping[str, Curve]  # the paper's curves by key
    labels_by_curve: Mapping[str, list[str]]  # key -> our series that it belongs to
    # what the paper reports for the end of a run, unless its curves are drawn
    ends: Mapping[str, float]
    target: float | None
    levels: Mapping[str, list[float]]  # name -> final values of the seeds, in the units of the axes

    @property
    def paper_is_drawn(self) -> bool:
        return self.view.comparable and bool(self.labels_by_curve)

    @property
    def is_single_shared(self) -> bool:
        """Return whether the paper has one curve only, which belongs to several of our series and
        so is drawn in grey."""
        return [len(labels) > 1 for labels in self.labels_by_curve.values()] == [True]


class Curves(base.Figure, ExperimentRef):
    """Learning curves of one experiment. By scale: `shown`, the part of the vertical axis that is
    drawn (default: all); `smooth`, the number of measured rounds that a line averages (default: 1).
    `over`: rounds, or the local epochs of all rounds so far. `baseline`: the series that is
    subtracted from the others. `needs`: the series without which nothing is shown. `levels`: an
    experiment whose final values are horizontal lines, e.g. of pooled or local-only training."""

    over: Literal["rounds", "epochs"] = "rounds"
    shown: dict[str, tuple[Share, Share]] = {}
    smooth: dict[str, Count] = {}
    baseline: str | None = None
    needs: tuple[str, ...] = ()
    levels: ExperimentRef | None = None

    @property
    def alt_text(self) -> str:
        if self.baseline:
            return "differences from one method over rounds of communication, one line per method"
        return "accuracy over rounds of communication, one line per method"

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [self.experiment, *([self.levels.experiment] if self.levels else [])]

    def check(self, checker: ReferenceChecker) -> None:
        display = checker.check_ref(self)
        if self.over == "epochs" and display.reported:
            checker.at("over").fail("the paper's curves are in rounds: set `reported: {}` too")
        checker.at("shown").check_names("scale", self.shown, checker.scales)
        checker.at("smooth").check_names("scale", self.smooth, checker.scales)
        checker.at("baseline").check_experiment(self.experiment, [self.baseline])
        checker.at("needs").check_experiment(self.experiment, self.needs)
        if self.levels:
            checker.at("levels").check_ref(self.levels)

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        return [evidence.panel(self)]

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        needed = [*self.needs, *filter(None, [self.baseline])]
        return next(
            filter(None, (view.results.series_missing_reason([label]) for label in needed)),
            view.missing_reason,
        )

    def first_results(self, evidence: PaperData) -> Any:
        return evidence.panel(self).results

    @base.computed_once
    def data(self, evidence: PaperData) -> CurvesData:
        """Return what axes, CSV file and caption show."""
        view = evidence.panel(self)
        results, window = view.results, view.results.at_scale(self.smooth, 1)
        lines = {
            label: self._line(view, label, window)
            for label in results.labels
            if label != self.baseline
        }
        target = None if self.baseline else view.target
        # of many series, all but the first and those that are best at the end are grey
        ends = {
            label: [*line.estimates.values()][-1].mean
            for label, line in lines.items()
            if line.estimates
        }
        best = sorted(ends, key=ends.__getitem__, reverse=view.measure.score != "loss")[:BEST]
        grey = [label for label in [*lines][1:] if label not in best] if len(lines) > MANY else []
        # bands that would fill the axis, being wide or many, are not drawn
        widths = [
            each.half_width
            for line in lines.values()
            for each in line.estimates.values()
            if each.half_width
        ]
        width, shown = statistics.median(widths or [0]), results.at_scale(self.shown)
        means = [each.mean for line in lines.values() for each in line.estimates.values()]
        extent = (
            display_factor(view.measure) * (shown[1] - shown[0])
            if shown
            else max(means, default=0) - min(means, default=0)
        )
        is_wide = 2 * width > WIDE * extent
        wide = width if widths and (is_wide or len(lines) > MANY) else None
        reported, values = self._reported(view, evidence)
        keys = view.display.reported.items()
        labels_by_curve = grouped((key, label) for label, key in keys if key in reported)
        if results.compare == "none" or (view.comparable and reported):
            values = {}
        values = {
            label: values[label] for label, line in lines.items() if label in values and line.seeds
        }
        return CurvesData(
            view,
            window,
            lines,
            grey,
            wide,
            reported,
            labels_by_curve,
            values,
            target,
            self._levels(evidence),
        )

    def _levels(self, evidence: PaperData) -> dict[str, list[float]]:
        view = evidence.panel(self.levels) if self.levels else None
        if not view or view.missing_reason:
            return {}
        curves = {label: view.curves(label) for label in view.results.labels}
        return {
            label: [display_factor(view.measure) * seed[-1][1] for seed in found.values()]
            for label, found in curves.items()
            if found
        }

    def _line(self, view: ExperimentView, label: str, window: int) -> Line:
        """Return a series' numbers, or their differences from those of the baseline with the same
        seed."""
        step = 1 if self.over == "rounds" else view.setting(label, "local_epochs")
        curves, baseline = view.curves(label), view.curves(self.baseline or label)
        if self.baseline:
            curves = {
                seed: _difference(curve, baseline[seed])
                for seed, curve in curves.items()
                if seed in baseline
            }
        unit = display_factor(view.measure)
        single, values = (_by_x(curves, step, unit, rounds) for rounds in (1, window))
        means = (
            {x: statistics.fmean(numbers) for x, numbers in single.items()} if window > 1 else {}
        )
        return Line(
            values, {x: estimate(numbers) for x, numbers in values.items()}, means, len(curves)
        )

    def _reported(
        self, view: ExperimentView, evidence: PaperData
    ) -> tuple[dict[str, Curve], dict[str, float]]:
        """Return the paper's curves by key and its values for the end of a run by series, or their
        differences from those of the baseline, if it has them."""
        curves = {key: evidence.curves[key] for key in view.display.reported.values()}
        ends = evidence.paper_ends(self)
        if self.baseline:
            baseline, end = view.display.reported.get(self.baseline), ends.get(self.baseline)
            less = {
                key: _difference(curve, curves[baseline])
                for key, curve in curves.items()
                if baseline and key != baseline
            }
            return less, {} if end is None else {
                label: value - end for label, value in ends.items()
            }
        return curves, ends

    def draw(self, axes: Any, evidence: PaperData) -> None:
        data = self.data(evidence)
        shown, unit = data.view.results.at_scale(self.shown), display_factor(data.view.measure)
        self._draw_lines(axes, evidence, data)
        self._draw_frame(axes, data)
        if shown:
            # room for a line at the top
            low, high = unit * shown[0], unit * (shown[1] + 0.01 * (shown[1] - shown[0]))
            framed = axes
            # the whole is readable, and the frame stands in it
            if axes.get_subplotspec().get_gridspec().ncols <= 2:
                framed = axes.inset_axes(INSET)
                self._draw_lines(framed, evidence, data)
                framed.tick_params(labelsize=5, length=1.5, pad=1)
                framed.set_xlim(axes.get_xlim())
                draw_grid_lines(framed)
            framed.set_ylim(low, high)
        self._draw_ends(axes, data, evidence.styles_of(data.view.results))

    def _draw_lines(self, axes: Any, evidence: PaperData, data: CurvesData) -> None:
        view, styles, bounded = (
            data.view,
            evidence.styles_of(data.view.results),
            data.view.measure.percent and not self.baseline,
        )
        for index, (label, line) in enumerate(data.lines.items()):
            if label not in data.grey:
                _draw_line(axes, view, label, line, styles[label], index)
        for number, label in enumerate(data.grey):
            means = {x: each.mean for x, each in data.lines[label].estimates.items()}
            name = f"_{label}" if number else f"{len(data.grey)} others"
            axes.plot(
                [*means], [*means.values()], color="0.75", linewidth=0.6, label=name, zorder=1.5
            )
        for label, line in data.lines.items():
            estimates = list(line.estimates.values())
            if data.wide and len(data.lines) <= MANY:
                seeds = {
                    x: values for x, values in line.values.items() if len(values) == line.seeds
                }
                axes.plot(
                    [*seeds],
                    [*seeds.values()],
                    color=styles[label].colour,
                    linewidth=0.5,
                    alpha=0.4,
                    zorder=1,
                )
            elif not data.wide and any(each.half_width for each in estimates):
                bounds = (0.0, 100.0) if bounded else (-math.inf, math.inf)
                draw_band(axes, [*line.estimates], estimates, styles[label].colour, bounds)
        for label in view.results.unfinished_series:
            if label in styles and label not in data.grey:
                options = {"color": styles[label].colour, **styles[label].marker_options}
                axes.plot([], [], **options, label=label + UNFINISHED_SUFFIX, gid=label)
        if data.paper_is_drawn:
            _draw_paper_curves(axes, data, styles)
        for (label, values), dashes in zip(data.levels.items(), LEVEL_DASHES, strict=False):
            axes.axhline(
                statistics.fmean(values),
                color="0.3",
                linewidth=0.8,
                linestyle=dashes,
                label=label,
                zorder=1.2,
            )

    def _draw_ends(self, axes: Any, data: CurvesData, styles: Mapping[str, SeriesStyle]) -> None:
        view = data.view
        if data.ends:
            unit = (
                difference_unit_name(view.measure)
                if self.baseline
                else measure_unit_name(view.measure)
            )
            values = {
                label: display_factor(view.measure) * value for label, value in data.ends.items()
            }
            draw_paper_values(axes, values, styles, unit)

    def _draw_frame(self, axes: Any, data: CurvesData) -> None:
        results, measure, unit, target = (
            data.view.results,
            data.view.measure,
            display_factor(data.view.measure),
            data.target,
        )
        if target is not None:
            axes.axhline(unit * target, color="0.5", linewidth=0.6, zorder=0, label=TARGET_LABEL)
            position = {
                "xy": (1, unit * target),
                "xycoords": ("axes fraction", "data"),
                "xytext": (2, 0),
            }
            style = {
                "textcoords": "offset points",
                "fontsize": 6,
                "color": "0.4",
                "ha": "left",
                "va": "center",
            }
            axes.annotate(format_target(measure, target), **position, **style)
        steps = {
            label: 1 if self.over == "rounds" else data.view.setting(label, "local_epochs")
            for label in results.labels
        }
        last = max(int(row["round"]) * steps[row["series"]] for row in results.rows)
        axes.locator_params(axis="x", integer=True)
        xlabel = "round of communication" if self.over == "rounds" else "local epochs in all"
        axes.set(xlabel=xlabel, ylabel=measure.axis, xlim=(0, (1 + MARGIN) * max(last, 1)))
        if self.baseline:
            axes.axhline(0, color="0.3", linewidth=0.8, zorder=1.2)
            axes.set_ylabel(
                f"{measure.label or measure.title} minus {self.baseline}'s "
                f"({difference_unit_name(measure)})"
            )
        limit_to_lines(axes)
        if measure.percent and not self.baseline:
            axes.set_ylim(None, min(axes.get_ylim()[1], 100.5))
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["series", self.over.removesuffix("s"), *base.SPREAD_COLUMNS]]
        for label, line in self.data(evidence).lines.items():
            rows += [[label, x, *base.csv_spread(values)] for x, values in line.values.items()]
        return [
            *rows,
            *(
                [label, "end", *base.csv_spread(values)]
                for label, values in self.data(evidence).levels.items()
            ),
        ]

    def explanations(self, evidence: PaperData) -> list[str]:
        data = self.data(evidence)
        results, measure, target, window = (
            data.view.results,
            data.view.measure,
            data.target,
            data.window,
        )
        step, difference_unit = (
            results.note["training"]["evaluate_every"],
            difference_unit_name(measure),
        )
        every = "every round" if step == 1 else f"every {step} rounds"
        who = (
            f"Mean over the {measure.over} in {every}"
            if measure.over
            else f"Global model after {every}"
        )
        sentences = [f"The difference from {self.baseline}, seed by seed."] if self.baseline else []
        sentences.append(f"{who}: {measure.title}.")
        sentences.append(base.seeds_sentence([results], "not drawn" if data.wide else "band"))
        if data.wide:
            half = f"half of one is {data.wide:.2g} {difference_unit} in the median"
            seeds = "" if data.grey else "Thin lines: the single seeds. "
            sentences.append(f"{seeds}The intervals would fill this axis: {half}.")
        if data.grey:
            sentences.append(
                f"In colour: {[*data.lines][0]} and the {BEST} best at the end; all are in the "
                f"CSV file."
            )
        if window > 1:
            rounds = f"{window} rounds" if step == 1 else f"{window} measured rounds"
            sentences.append(
                f"Lines and bands show means over the last {rounds}, faint lines single rounds."
            )
        for label, values in data.levels.items():
            sentences.append(
                f"Horizontal line: {label} at the end, "
                f"{count(len(values), 'seed')}{_other_measure(self, evidence)}."
            )
        sentences += base.diverged_sentences(results)
        sentences += base.emphasis_sentence(evidence, [results], "Heavier")
        sentences += _paper_sentences(evidence, data)
        if data.ends:
            caution = "" if data.view.comparable else ", at its own settings"
            sentences.append(
                f"Diamonds at the right edge, or grey text: what the paper reports for the "
                f"end{caution}."
            )
        if target is not None:
            sentences.append(f"Grey line: the target, {format_target(measure, target)}.")
        if shown := results.at_scale(self.shown):
            low, high = (display_factor(measure) * bound for bound in shown)
            sentences.append(
                f"Close up: {low:g} to {high:g} "
                f"{difference_unit if self.baseline else measure_unit_name(measure)}."
            )
        how = sorted({f"{run['precision']} ({run['executor']} executor)" for run in results.runs()})
        sentences += base.training_sentences([results], f" in {' and '.join(how)}")
        return [*sentences, base.data_sentence([results])]


def _other_measure(figure: Curves, evidence: PaperData) -> str:
    """Return the measure of horizontal lines as a phrase if it is not that of the curves."""
    measures = [evidence.panel(ref).measure.title for ref in (figure, figure.levels) if ref]
    return f", in another measure: {measures[-1]}" if len(set(measures)) > 1 else ""


def _difference(curve: Curve, other: Curve) -> Curve:
    """Return the difference of two curves in their common rounds."""
    other_values = dict(other)
    return [(round, value - other_values[round]) for round, value in curve if round in other_values]


def _averaged(curve: Curve, window: int) -> Curve:
    return list(smoothed(curve, window).items()) if window > 1 else curve


def _by_x(
    seeds: Mapping[int, Curve], step: int, unit: float, window: int
) -> dict[int, list[float]]:
    """Return x -> the values of the seeds, times `unit`. `step`: the length of a round on the
    horizontal axis."""
    points = (point for curve in seeds.values() for point in _averaged(curve, window))
    return dict(sorted(grouped((step * round, unit * value) for round, value in points).items()))


def _draw_line(
    axes: Any, view: ExperimentView, label: str, line: Line, style: SeriesStyle, index: int
) -> None:
    """Draw means; the series' `index` shifts the markers, so that equal curves all show theirs."""
    diverged, xs = view.results.diverged_runs(label), list(line.values)
    options = {"color": style.colour, "linewidth": style.line_width} | style.marker_options
    if not line.seeds:
        axes.plot([], [], **options, label=f"{label}: {'diverged' if diverged else 'not measured'}")
        return
    if line.single:
        axes.plot(
            [*line.single],
            [*line.single.values()],
            color=style.colour,
            linewidth=0.5,
            alpha=0.25,
            zorder=1,
        )
    name = f"{label} ({line.seeds} of {len(view.results.runs(label))} seeds)" if diverged else label
    zorder = 1.9 if style.proposed else 2  # the heavy line hides no other
    [drawn] = axes.plot(
        xs, list(map(statistics.fmean, line.values.values())), **options, label=name, zorder=zorder
    )
    drawn.set_dashes(style.dashes or (None, None))
    interval = max(1, len(xs) // 8)
    drawn.set_markevery((index * interval // len(view.results.labels), interval))


def _draw_paper_curves(axes: Any, data: CurvesData, styles: Mapping[str, SeriesStyle]) -> None:
    """Draw the paper's digitised curves, in front of ours."""
    single, last = data.is_single_shared, max(int(row["round"]) for row in data.view.results.rows)
    options = (
        {"linestyle": PAPER_DASHES, "linewidth": 1.2, "zorder": 3}
        if single
        else THIN | {"zorder": 2.5}
    )
    for key, labels in data.labels_by_curve.items():
        points = {
            round: value
            for round, value in _averaged(data.reported[key], data.window)
            if round <= last
        }
        values = [display_factor(data.view.measure) * value for value in points.values()]
        axes.plot(
            [*points], values, color=PAPER_COLOUR if single else styles[labels[0]].colour, **options
        )
    axes.plot([], [], color=PAPER_COLOUR, label=PAPER_LABEL, **options)


def _paper_sentences(evidence: PaperData, data: CurvesData) -> list[str]:
    """Return sentences on the look and the source of the paper's curves, and on settings chosen
    with them."""
    if not data.paper_is_drawn:
        return []
    text = "Grey dashes: the paper's curve"
    if not data.is_single_shared:
        text = "Thin and dashed: the paper's curves in the colours of ours"
        for labels in data.labels_by_curve.values():
            text += (
                f" (one curve for {' and '.join(labels)}, in the colour of {labels[0]})"
                if len(labels) > 1
                else ""
            )
    averaged = ", averaged in the same way" if data.window > 1 else ""
    sentences = [f"{text}, {evidence.curves_from}{averaged}."]
    calibrated = calibrated_curves(evidence.experiments)
    for curve, labels in data.labels_by_curve.items():
        if curve in calibrated and set(labels) & set(data.view.results.labels):
            chosen = " and ".join(calibrated[curve])
            sentences.append(
                f"The paper's curve ({evidence.curve_name(curve)}) was used to choose {chosen}."
            )
    return sentences
