"""Learning curves over rounds of communication or local epochs: mean over seeds with its 95 % interval as a band.

The paper's curves are thin and dashed in the same colours; of a paper that prints only final values, diamonds at the right edge
show them. With `smooth`, lines are means over some rounds and faint lines single rounds. With a `baseline`, curves are
differences from it, seed by seed.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from fedrepro.config.types import Count
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
from fedrepro.report.numbers import difference_unit_name, display_factor, format_target, measure_unit_name
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.statistics import Curve, Estimate, estimate, smoothed
from fedrepro.runs.reasons import MissingReason

THIN = {"linestyle": PAPER_DASHES, "linewidth": 0.8, "alpha": 0.9}  # the paper's curves among ours
WIDE = 0.5  # of the axis: bands that are wider are not drawn
MANY = 12  # series; of more, the bands are not drawn, and only the best have colours
BEST = 4  # of many series: those with colours, besides the first
MARGIN = 0.02  # of the rounds: space for the last marker
Share = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


class Figure(base.Figure, ExperimentRef):
    """Learning curves of one experiment. By scale: `shown`, the part of the vertical axis that is drawn (default: all);
    `smooth`, the number of measured rounds that a line averages (default: 1). `over`: rounds, or the local epochs of all rounds
    so far. `baseline`: the series that is subtracted from the others. `needs`: the series without which nothing is shown."""

    over: Literal["rounds", "epochs"] = "rounds"
    shown: dict[str, tuple[Share, Share]] = {}
    smooth: dict[str, Count] = {}
    baseline: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def alt_text(self) -> str:
        if self.baseline:
            return "differences from one method over rounds of communication, one line per method"
        return "accuracy over rounds of communication, one line per method"

    def check(self, checker: ReferenceChecker) -> None:
        display = checker.check_ref(self)
        if self.over == "epochs" and display.reported:
            checker.at("over").fail("the paper's curves are in rounds: set `reported: {}` too")
        checker.at("shown").check_names("scale", self.shown, checker.scales)
        checker.at("smooth").check_names("scale", self.smooth, checker.scales)
        checker.at("baseline").check_experiment(self.experiment, [self.baseline])
        checker.at("needs").check_experiment(self.experiment, self.needs)

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [self.experiment]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        needed = [*self.needs, *filter(None, [self.baseline])]
        results = self.first_results(evidence)
        return next(filter(None, (results.series_missing_reason([label]) for label in needed)), results.missing_reason)

    def draw(self, axes: Any, evidence: PaperData) -> None:
        panel, window = evidence.panel(self), self._window(evidence)
        styles = evidence.styles_of(panel.results)
        grey = self._grey_labels(panel, window)
        for index, label in enumerate(self._labels(panel)):
            if label not in grey:
                self._draw_line(axes, panel, label, styles[label], window, index)
        self._draw_grey_lines(axes, panel, grey, window)
        if not self._wide_interval(panel, window):
            for label in self._labels(panel):
                self._draw_band(axes, panel, label, styles[label], window)
        for label in panel.results.unfinished_series:
            if label in styles and label not in grey:
                options = {"color": styles[label].colour, **styles[label].marker_options}
                axes.plot([], [], **options, label=label + UNFINISHED_SUFFIX, gid=label)
        reported = self._reported(panel, evidence.curves)
        if panel.comparable and reported:
            _draw_paper_curves(axes, panel, reported, styles, window)
        self._draw_frame(axes, panel)
        if ends := self._paper_ends(evidence):
            unit = difference_unit_name(panel.measure) if self.baseline else measure_unit_name(panel.measure)
            values = {label: display_factor(panel.measure) * value for label, value in ends.items()}
            draw_paper_values(axes, values, styles, unit, far=not panel.comparable)

    def _draw_line(self, axes: Any, panel: ExperimentView, label: str, style: SeriesStyle, window: int, index: int) -> None:
        """Draw means over `window` rounds; the series' `index` shifts the markers, so that equal curves all show theirs."""
        seeds, diverged = self._seeds(panel, label), panel.results.diverged_runs(label)
        options = {"color": style.colour, "linewidth": style.line_width} | style.marker_options
        if not seeds:
            axes.plot([], [], **options, label=f"{label}: {'diverged' if diverged else 'not measured'}")
            return
        step, unit = self._step(panel, label), display_factor(panel.measure)
        if window > 1:
            single = _by_round(seeds, unit)
            xs, means = [step * round for round in single], [statistics.fmean(values) for values in single.values()]
            axes.plot(xs, means, color=style.colour, linewidth=0.5, alpha=0.25, zorder=1)
        values = _by_round({seed: _averaged(curve, window) for seed, curve in seeds.items()}, unit)
        rounds = sorted(values)
        xs, means = [step * round for round in rounds], [statistics.fmean(values[round]) for round in rounds]
        name = f"{label} ({len(seeds)} of {len(panel.results.runs(label))} seeds)" if diverged else label
        zorder = 1.9 if style.proposed else 2  # the heavy line hides no other
        [line] = axes.plot(xs, means, **options, label=name, zorder=zorder)
        line.set_dashes(style.dashes or (None, None))
        interval = max(1, len(xs) // 8)
        line.set_markevery((index * interval // len(panel.results.labels), interval))

    def _draw_grey_lines(self, axes: Any, panel: ExperimentView, labels: list[str], window: int) -> None:
        """Draw means of series without colours of their own, as one entry of the legend."""
        for number, label in enumerate(labels):
            estimates = self._estimates(panel, label, window)
            xs = [self._step(panel, label) * round for round in estimates]
            name = f"{len(labels)} others" if number == 0 else f"_{label}"
            axes.plot(xs, [each.mean for each in estimates.values()], color="0.75", linewidth=0.6, label=name, zorder=1.5)

    def _grey_labels(self, panel: ExperimentView, window: int) -> list[str]:
        """Return, of many series, all but the first and those that are best at the end; else none."""
        labels = self._labels(panel)
        if len(labels) <= MANY:
            return []
        estimates = {label: self._estimates(panel, label, window) for label in labels}
        ends = {label: values[max(values)].mean for label, values in estimates.items() if values}
        best = sorted(ends, key=ends.__getitem__, reverse=panel.measure.score != "loss")[:BEST]
        return [label for label in labels[1:] if label not in best]

    def _estimates(self, panel: ExperimentView, label: str, window: int) -> dict[int, Estimate]:
        """Return round -> the mean over seeds in the unit of the axis."""
        seeds = {seed: _averaged(curve, window) for seed, curve in self._seeds(panel, label).items()}
        values = _by_round(seeds, display_factor(panel.measure))
        return {round: estimate(values[round]) for round in sorted(values)}

    def _draw_band(self, axes: Any, panel: ExperimentView, label: str, style: SeriesStyle, window: int) -> None:
        estimates = self._estimates(panel, label, window)
        if any(each.half_width for each in estimates.values()):
            bounded = panel.measure.percent and not self.baseline
            xs = [self._step(panel, label) * round for round in estimates]
            bounds = (0.0, 100.0) if bounded else (-math.inf, math.inf)
            draw_band(axes, xs, list(estimates.values()), style.colour, bounds)

    def _wide_interval(self, panel: ExperimentView, window: int) -> float | None:
        """Return the median half width of the intervals if their bands would fill the axis, being wide or many; else None."""
        shown = panel.results.at_scale(self.shown)
        estimates = [self._estimates(panel, label, window).values() for label in self._labels(panel)]
        widths = [each.half_width for series in estimates for each in series if each.half_width]
        if not widths:
            return None
        width = statistics.median(widths)
        wide = shown and 2 * width > WIDE * display_factor(panel.measure) * (shown[1] - shown[0])
        return width if wide or len(estimates) > MANY else None

    def _labels(self, panel: ExperimentView) -> list[str]:
        """Return the series that are drawn."""
        return [label for label in panel.results.labels if label != self.baseline]

    def _seeds(self, panel: ExperimentView, label: str) -> dict[int, Curve]:
        """Return each seed's curve of a series, or its difference from the baseline's curve of the same seed."""
        curves = panel.curves(label)
        if self.baseline is None:
            return curves
        baseline = panel.curves(self.baseline)
        return {seed: _difference(curve, baseline[seed]) for seed, curve in curves.items() if seed in baseline}

    def _reported(self, panel: ExperimentView, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """Return the paper's curves, or their differences from the paper's curve of the baseline, if it has one."""
        keys = panel.display.reported.values()
        if self.baseline is None:
            return {key: curves[key] for key in keys}
        baseline = panel.display.reported.get(self.baseline)
        return {key: _difference(curves[key], curves[baseline]) for key in keys if baseline and key != baseline}

    def _paper_ends(self, evidence: PaperData) -> dict[str, float]:
        """Return series -> what the paper reports for the end of a run, unless its curves are drawn."""
        panel, ends = evidence.panel(self), evidence.paper_ends(self)
        reported = self._reported(panel, evidence.curves)
        if panel.results.compare == "none" or (panel.comparable and reported):
            return {}
        if self.baseline:
            baseline = ends.get(self.baseline)
            ends = {} if baseline is None else {label: value - baseline for label, value in ends.items()}
        return {label: ends[label] for label in self._labels(panel) if label in ends and self._seeds(panel, label)}

    def _target(self, panel: ExperimentView) -> float | None:
        """Return the target that is drawn as a horizontal line."""
        return None if self.baseline else panel.target

    def _window(self, evidence: PaperData) -> int:
        return evidence.panel(self).results.at_scale(self.smooth, 1)

    def _step(self, panel: ExperimentView, label: str) -> int:
        """Return the length of a round on the horizontal axis."""
        return 1 if self.over == "rounds" else panel.results.note["series"][label]["config"]["local_epochs"]

    def _draw_frame(self, axes: Any, panel: ExperimentView) -> None:
        measure, unit, target = panel.measure, display_factor(panel.measure), self._target(panel)
        if target is not None:
            axes.axhline(unit * target, color="0.5", linewidth=0.6, zorder=0, label=TARGET_LABEL)
            position = {"xy": (1, unit * target), "xycoords": ("axes fraction", "data"), "xytext": (2, 0)}
            style = {"textcoords": "offset points", "fontsize": 6, "color": "0.4", "ha": "left", "va": "center"}
            axes.annotate(format_target(measure, target), **position, **style)
        last = max(int(row["round"]) * self._step(panel, row["series"]) for row in panel.results.rows)
        axes.locator_params(axis="x", integer=True)
        xlabel = "round of communication" if self.over == "rounds" else "local epochs in all"
        axes.set(xlabel=xlabel, ylabel=measure.axis, xlim=(0, (1 + MARGIN) * max(last, 1)))
        if self.baseline:
            axes.axhline(0, color="0.3", linewidth=0.8, zorder=1.2)
            axes.set_ylabel(f"{measure.label or measure.title} minus {self.baseline}'s ({difference_unit_name(measure)})")
        limit_to_lines(axes)
        if shown := panel.results.at_scale(self.shown):
            axes.set_ylim(unit * shown[0], unit * (shown[1] + 0.01 * (shown[1] - shown[0])))  # room for a line at the top
        elif measure.percent and not self.baseline:
            axes.set_ylim(None, min(axes.get_ylim()[1], 100.5))
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        panel, window = evidence.panel(self), self._window(evidence)
        rows: list[list] = [["series", self.over.removesuffix("s"), *base.SPREAD_COLUMNS]]
        for label in self._labels(panel):
            seeds, step = self._seeds(panel, label), self._step(panel, label)
            values = _by_round({seed: _averaged(curve, window) for seed, curve in seeds.items()}, display_factor(panel.measure))
            rows += [[label, step * round, *base.csv_spread(values[round])] for round in sorted(values)]
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        panel, window = evidence.panel(self), self._window(evidence)
        results, measure, target = panel.results, panel.measure, self._target(panel)
        step = results.note["training"]["evaluate_every"]
        every = "every round" if step == 1 else f"every {step} rounds"
        who = f"Mean over the {measure.over} in {every}" if measure.over else f"Global model after {every}"
        sentences = [f"The difference from {self.baseline}, seed by seed."] if self.baseline else []
        sentences.append(f"{who}: {measure.title}.")
        wide = self._wide_interval(panel, window)
        sentences.append(base.seeds_sentence([results], "not drawn" if wide else "band"))
        if wide:
            unit = difference_unit_name(measure)
            sentences.append(f"The intervals would fill this axis: half of one is {wide:.2g} {unit} in the median.")
        if self._grey_labels(panel, window):
            sentences.append(f"In colour: {self._labels(panel)[0]} and the {BEST} best at the end; all are in the CSV file.")
        if window > 1:
            rounds = f"{window} rounds" if step == 1 else f"{window} measured rounds"
            sentences.append(f"Lines and bands show means over the last {rounds}, faint lines single rounds.")
        sentences += base.diverged_sentences(results)
        sentences += base.emphasis_sentence(evidence, [results], "Heavier")
        sentences += self._paper_sentences(evidence, window)
        if self._paper_ends(evidence):
            caution = "" if panel.comparable else ", at its own settings"
            sentences.append(f"Diamonds at the right edge, or grey text: what the paper reports for the end{caution}.")
        if target is not None:
            sentences.append(f"Grey line: the target, {format_target(measure, target)}.")
        if shown := results.at_scale(self.shown):
            low, high = (display_factor(measure) * bound for bound in shown)
            unit = difference_unit_name(measure) if self.baseline else measure_unit_name(measure)
            sentences.append(f"Only {low:g} to {high:g} {unit} is shown.")
        how = sorted({f"{run['precision']} ({run['executor']} executor)" for run in results.runs()})
        sentences += base.training_sentences([results], f" in {' and '.join(how)}")
        return [*sentences, base.data_sentence([results])]

    def _paper_sentences(self, evidence: PaperData, window: int) -> list[str]:
        """Return sentences on the look and the source of the paper's curves, and on settings chosen with them."""
        panel = evidence.panel(self)
        labels_by_curve = _labels_by_curve(panel, self._reported(panel, evidence.curves))
        if not panel.comparable or not labels_by_curve:
            return []
        if _is_single_shared(labels_by_curve):
            text = "Grey dashes: the paper's curve"
        else:
            text = "Thin and dashed: the paper's curves in the colours of ours"
            for labels in labels_by_curve.values():
                text += f" (one curve for {' and '.join(labels)}, in the colour of {labels[0]})" if len(labels) > 1 else ""
        averaged = ", averaged in the same way" if window > 1 else ""
        sentences = [f"{text}, {evidence.curves_from}{averaged}."]
        calibrated = calibrated_curves(evidence.experiments)
        for curve, labels in labels_by_curve.items():
            if curve in calibrated and set(labels) & set(panel.results.labels):
                chosen = " and ".join(calibrated[curve])
                sentences.append(f"The paper's curve ({evidence.curve_name(curve)}) was used to choose {chosen}.")
        return sentences


def _difference(curve: Curve, other: Curve) -> Curve:
    """Return the difference of two curves in their common rounds."""
    other_values = dict(other)
    return [(round, value - other_values[round]) for round, value in curve if round in other_values]


def _averaged(curve: Curve, window: int) -> Curve:
    return list(smoothed(curve, window).items()) if window > 1 else curve


def _by_round(seeds: Mapping[int, Curve], unit: float) -> dict[int, list[float]]:
    """Return round -> the values of the seeds, times `unit`."""
    values = defaultdict(list)
    for curve in seeds.values():
        for round, value in curve:
            values[round].append(unit * value)
    return values


def _draw_paper_curves(
    axes: Any, panel: ExperimentView, curves: Mapping[str, Curve], styles: Mapping[str, SeriesStyle], window: int
) -> None:
    """Draw the paper's digitised curves, in front of ours."""
    labels_by_curve = _labels_by_curve(panel, curves)
    single = _is_single_shared(labels_by_curve)
    last = max(int(row["round"]) for row in panel.results.rows)
    options = {"linestyle": PAPER_DASHES, "linewidth": 1.2, "zorder": 3} if single else THIN | {"zorder": 2.5}
    for key, labels in labels_by_curve.items():
        points = [(round, value) for round, value in _averaged(curves[key], window) if round <= last]
        rounds, values = [round for round, _ in points], [display_factor(panel.measure) * value for _, value in points]
        axes.plot(rounds, values, color=PAPER_COLOUR if single else styles[labels[0]].colour, **options)
    axes.plot([], [], color=PAPER_COLOUR, label=PAPER_LABEL, **options)


def _labels_by_curve(panel: ExperimentView, keys: Collection[str]) -> dict[str, list[str]]:
    """Return the paper's curves that are drawn, each with our series that it belongs to."""
    labels_by_curve: dict[str, list[str]] = {}
    for label, key in panel.display.reported.items():
        if key in keys:
            labels_by_curve.setdefault(key, []).append(label)
    return labels_by_curve


def _is_single_shared(labels_by_curve: Mapping[str, Collection[str]]) -> bool:
    """Return whether the paper has one curve only, which belongs to several of our series and so is drawn in grey."""
    return len(labels_by_curve) == 1 and len(next(iter(labels_by_curve.values()))) > 1
