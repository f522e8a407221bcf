"""Learning curves over rounds of communication or local epochs: mean over seeds with a band of one standard deviation.

The paper's curves are thin and dashed in the same colours. With `smooth`, lines are means over some rounds and faint lines
single rounds. With a `baseline`, curves are differences from it, seed by seed.
"""

import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Literal

from fedrepro.config.types import Count, Fraction
from fedrepro.report.figures import base
from fedrepro.report.figures._style import PAPER_DASHES, PAPER_LABEL, TARGET_LABEL, UNFINISHED_SUFFIX, draw_grid_lines
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData, calibrated_curves
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import difference_unit_name, display_factor, format_target
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.statistics import Curve, smoothed
from fedrepro.runs.reasons import MissingReason

THIN = {"linestyle": PAPER_DASHES, "linewidth": 0.8, "alpha": 0.9}  # the paper's curves among ours
MARGIN = 0.02  # of the rounds: space for the last marker


class Figure(base.Figure, ExperimentRef):
    """Learning curves of one experiment. By scale: `shown`, the part of the vertical axis that is drawn (default: all);
    `smooth`, the number of measured rounds that a line averages (default: 1). `over`: rounds, or the local epochs of all rounds
    so far. `baseline`: the series that is subtracted from the others."""

    over: Literal["rounds", "epochs"] = "rounds"
    shown: dict[str, tuple[Fraction, Fraction]] = {}
    smooth: dict[str, Count] = {}
    baseline: str | None = None

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
        if self.baseline and self.shown:
            checker.at("shown").fail("differences always show the whole axis: leave shown out")

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [self.experiment]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        return self.first_results(evidence).series_missing_reason([self.baseline] if self.baseline else [])

    def draw(self, axes: Any, evidence: PaperData) -> None:
        panel, window = evidence.panel(self), self._window(evidence)
        styles = evidence.styles_of(panel.results)
        for index, label in enumerate(self._labels(panel)):
            self._draw_line(axes, panel, label, styles[label], window, index)
        for label in panel.results.unfinished_series:
            if label in styles:
                options = {"color": styles[label].colour, **styles[label].marker_options}
                axes.plot([], [], **options, label=label + UNFINISHED_SUFFIX, gid=label)
        reported = self._reported(panel, evidence.curves)
        if panel.comparable and reported:
            _draw_paper_curves(axes, panel, reported, styles, window)
        self._draw_frame(axes, panel)

    def _draw_line(self, axes: Any, panel: ExperimentView, label: str, style: SeriesStyle, window: int, index: int) -> None:
        """Draw means over `window` rounds; the series' `index` shifts the markers, so that equal curves all show theirs."""
        seeds, diverged = self._seeds(panel, label), panel.results.diverged_runs(label)
        options = {"color": style.colour, "linewidth": style.line_width} | style.marker_options
        if not seeds:
            axes.plot([], [], **options, label=f"{label}: {'diverged' if diverged else 'not measured'}")
            return
        step, unit = self._step(panel, label), display_factor(panel.measure)
        if window > 1:
            rounds, means, _, _ = _band(seeds, unit)
            axes.plot([step * round for round in rounds], means, color=style.colour, linewidth=0.5, alpha=0.25, zorder=1)
        rounds, means, low, high = _band({seed: _averaged(curve, window) for seed, curve in seeds.items()}, unit)
        xs = [step * round for round in rounds]
        name = f"{label} ({len(seeds)} of {len(panel.results.runs(label))} seeds)" if diverged else label
        zorder = 1.9 if style.proposed else 2  # the heavy line hides no other
        [line] = axes.plot(xs, means, **options, label=name, zorder=zorder)
        if len(seeds) > 1:
            axes.fill_between(xs, low, high, color=style.colour, alpha=0.15, linewidth=0, zorder=1)
        interval = max(1, len(xs) // 8)
        line.set_markevery((index * interval // len(panel.results.labels), interval))

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
        elif measure.percent:
            low, high = panel.results.at_scale(self.shown, (None, None))
            top = 100.5 * high if high else min(axes.get_ylim()[1], 100.5)
            axes.set_ylim(100 * low if low is not None else None, top)
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        panel, window = evidence.panel(self), self._window(evidence)
        rows: list[list] = [["series", self.over.removesuffix("s"), "mean", "sd", "seeds"]]
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
        sentences.append(base.seeds_sentence([results], "band"))
        if window > 1:
            rounds = f"{window} rounds" if step == 1 else f"{window} measured rounds"
            sentences.append(f"Lines and bands show means over the last {rounds}, faint lines single rounds.")
        sentences += base.diverged_sentences(results)
        sentences += base.emphasis_sentence(evidence, [results], "Heavier")
        sentences += self._paper_sentences(evidence, window)
        if target is not None:
            sentences.append(f"Grey line: the target, {format_target(measure, target)}.")
        if shown := results.at_scale(self.shown):
            sentences.append(f"Only {100 * shown[0]:g} to {100 * shown[1]:g} % is shown.")
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
            text = "Dashed: the paper's curve"
        else:
            text = "Thin and dashed: the paper's curves in the colours of ours"
            for labels in labels_by_curve.values():
                text += f" (one curve for {' and '.join(labels)}, in the colour of {labels[0]})" if len(labels) > 1 else ""
        averaged = ", averaged in the same way" if window > 1 else ""
        sentences = [f"{text}, {evidence.curves_from}{averaged}."]
        calibrated = calibrated_curves(evidence.experiments)
        for label, curve in panel.display.reported.items():
            if curve in calibrated and label in panel.results.labels:
                chosen = " and ".join(calibrated[curve])
                sentences.append(f"The paper's curve of {label} was used to choose {chosen}.")
        return sentences


def _difference(curve: Curve, other: Curve) -> Curve:
    """Return the difference of two curves in their common rounds."""
    other_values = dict(other)
    return [(round, value - other_values[round]) for round, value in curve if round in other_values]


def _averaged(curve: Curve, window: int) -> Curve:
    return list(smoothed(curve, window).items()) if window > 1 else curve


def _band(seeds: Mapping[int, Curve], unit: float) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return rounds, means over seeds, and the means minus and plus one standard deviation."""
    values = _by_round(seeds, unit)
    rounds = sorted(values)
    means = [statistics.fmean(values[round]) for round in rounds]
    deviations = [statistics.stdev(values[round]) if len(values[round]) > 1 else 0.0 for round in rounds]
    low, high = ([mean + sign * std for mean, std in zip(means, deviations, strict=True)] for sign in (-1, 1))
    return rounds, means, low, high


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
        axes.plot(rounds, values, color="black" if single else styles[labels[0]].colour, **options)
    axes.plot([], [], color="black", label=PAPER_LABEL, **options)


def _labels_by_curve(panel: ExperimentView, keys: Collection[str]) -> dict[str, list[str]]:
    """Return the paper's curves that are drawn, each with our series that it belongs to."""
    labels_by_curve: dict[str, list[str]] = {}
    for label, key in panel.display.reported.items():
        if key in keys:
            labels_by_curve.setdefault(key, []).append(label)
    return labels_by_curve


def _is_single_shared(labels_by_curve: Mapping[str, Collection[str]]) -> bool:
    """Return whether the paper has one curve only, which belongs to several of our series and so is drawn in black."""
    return len(labels_by_curve) == 1 and len(next(iter(labels_by_curve.values()))) > 1
