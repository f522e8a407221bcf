"""Curves over rounds of communication, or over local epochs: mean over seeds with a band of one standard deviation, the paper's
curves thin and dashed in the same colours, the target as a line. Where they jump, `smooth` draws means over some rounds above
each round's value. Above a `baseline` they are differences seed by seed: curves that lie on each other differ by these."""

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

THIN = {"linestyle": PAPER_DASHES, "linewidth": 0.8, "alpha": 0.9}  # the paper's curve beside ours
MARGIN = 0.02  # of the rounds: room for the last marker


class Figure(base.Figure, ExperimentRef):
    """One experiment in one measure. By scale: `shown`, the part of the vertical axis that is drawn, else all; `smooth`, over
    how many rounds a line is averaged, else over none. `over`: rounds, or the epochs that a client has trained in them all.
    `baseline`: the series above which the others are drawn."""

    over: Literal["rounds", "epochs"] = "rounds"
    shown: dict[str, tuple[Fraction, Fraction]] = {}
    smooth: dict[str, Count] = {}
    baseline: str | None = None

    @property
    def alt_text(self) -> str:
        if self.baseline:
            return "how far methods lie above one of them over rounds of communication, one line per method"
        return "accuracy over rounds of communication, one line per method; the numbers are in the table below"

    def check(self, checker: ReferenceChecker) -> None:
        shown = checker.check_ref(self)
        if self.over == "epochs" and shown.reported:
            checker.at("over").fail("the paper's curves are in rounds: say `reported: {}` too")
        checker.at("shown").check_names("scale", self.shown, checker.scales)
        checker.at("smooth").check_names("scale", self.smooth, checker.scales)
        checker.at("baseline").check_experiment(self.experiment, [self.baseline])
        if self.baseline and self.shown:
            checker.at("shown").fail("the axis is as long as the differences are")

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        return self.first_results(evidence).series_missing_reason([self.baseline] if self.baseline else [])

    def draw(self, axes: Any, evidence: PaperData) -> None:
        panel, window = evidence.panel(self), self._window(evidence)
        drawn = evidence.styles_of(panel.results)
        for index, label in enumerate(self._labels(panel)):
            _line(axes, panel, label, self._seeds(panel, label), drawn[label], window, index, self._step(panel, label))
        for label in [label for label in panel.results.unfinished_series if label in drawn]:
            axes.plot(
                [], [], color=drawn[label].colour, **drawn[label].marker_options, label=label + UNFINISHED_SUFFIX, gid=label
            )
        if panel.comparable and (reported := self._reported(panel, evidence.curves)):
            _paper(axes, panel, reported, drawn, window)
        self._frame(axes, panel)

    def _labels(self, panel: ExperimentView) -> list[str]:
        """The series that are drawn."""
        return [label for label in panel.results.labels if label != self.baseline]

    def _seeds(self, panel: ExperimentView, label: str) -> dict[int, Curve]:
        """What is drawn of each seed of a series: its curve, or the difference where the baseline has the seed too."""
        own = panel.curves(label)
        if self.baseline is None:
            return own
        other = panel.curves(self.baseline)
        return {seed: _difference(curve, other[seed]) for seed, curve in own.items() if seed in other}

    def _reported(self, panel: ExperimentView, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """What is drawn of the paper's curves: of differences nothing without the paper's curve of the baseline."""
        keys = panel.display.reported.values()
        if self.baseline is None:
            return {key: curves[key] for key in keys}
        other = panel.display.reported.get(self.baseline)
        return {key: _difference(curves[key], curves[other]) for key in keys if other and key != other}

    def _target(self, panel: ExperimentView) -> float | None:
        """Where a line is drawn across."""
        return None if self.baseline else panel.target

    def _window(self, evidence: PaperData) -> int:
        return evidence.panel(self).results.at_scale(self.smooth, 1)

    def _step(self, panel: ExperimentView, label: str) -> int:
        """A round on the horizontal axis."""
        return 1 if self.over == "rounds" else panel.results.note["series"][label]["config"]["local_epochs"]

    def _frame(self, axes: Any, panel: ExperimentView) -> None:
        measure, unit, target = panel.measure, display_factor(panel.measure), self._target(panel)
        if target is not None:
            axes.axhline(unit * target, color="0.5", linewidth=0.6, zorder=0, label=TARGET_LABEL)
            place = {"xy": (1, unit * target), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            look = {"fontsize": 6, "color": "0.4", "ha": "left", "va": "center"}
            axes.annotate(format_target(measure, target), **place, xytext=(2, 0), **look)
        last = max(int(row["round"]) * self._step(panel, row["series"]) for row in panel.results.rows)
        axes.locator_params(axis="x", integer=True)
        name = "round of communication" if self.over == "rounds" else "local epochs in all"
        axes.set(xlabel=name, ylabel=measure.axis, xlim=(0, (1 + MARGIN) * max(last, 1)))
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
        results, measure = panel.results, panel.measure
        step = results.note["training"]["evaluate_every"]
        who = f"Mean over the {measure.over}, {measure.title}, in" if measure.over else f"Global model, {measure.title} after"
        target = self._target(panel)
        text = [f"The difference from {self.baseline}, seed by seed."] if self.baseline else []
        text += [f"{who} every {'round' if step == 1 else f'{step} rounds'}.", base.seeds_sentence([results], "band")]
        if window > 1:
            rounds = f"{window} rounds" if step == 1 else f"{window} measured rounds"
            text.append(f"Lines and bands are of means over the last {rounds}, faint lines of the single rounds.")
        text += [
            *base.diverged_sentences(results),
            *base.emphasis_sentence(evidence, [results], "Heavier"),
            *self._compared(evidence, window),
        ]
        if target is not None:
            text.append(f"Grey line: the target, {format_target(measure, target)}.")
        if cut := results.at_scale(self.shown):
            text.append(f"Only {100 * cut[0]:g} to {100 * cut[1]:g} % is shown.")
        how = sorted({f"{run['precision']} ({run['executor']} executor)" for run in results.runs()})
        return [*text, *base.training_sentences([results], f" in {' and '.join(how)}"), base.data_sentence([results])]

    def _compared(self, evidence: PaperData, window: int) -> list[str]:
        """What the paper's curves look like, and where they are from."""
        panel = evidence.panel(self)
        groups = _groups(panel, self._reported(panel, evidence.curves))
        if not panel.comparable or not groups:
            return []
        what = "Dashed: the paper's curve" if _alone(groups) else "Thin and dashed: the paper's curves in the colours of ours"
        shared = [labels for labels in groups.values() if len(labels) > 1 and not _alone(groups)]
        first = "".join(f" (its one curve of {' and '.join(labels)} in that of {labels[0]})" for labels in shared)
        averaged = ", averaged in the same way" if window > 1 else ""
        used = calibrated_curves(evidence.experiments)
        by = [
            f"The paper's curve of {label} was used to choose {' and '.join(used[curve])}."
            for label, curve in panel.display.reported.items()
            if curve in used and label in panel.results.labels
        ]
        return [f"{what}{first}, {evidence.curves_from}{averaged}.", *by]


def _line(
    axes: Any, panel: ExperimentView, label: str, seeds: dict[int, Curve], look: SeriesStyle, window: int, index: int, step: int
) -> None:
    unit = display_factor(panel.measure)
    drawn = {"color": look.colour, "linewidth": look.line_width} | look.marker_options
    if not seeds:
        why = "diverged" if panel.results.diverged_runs(label) else "not measured"
        axes.plot([], [], **drawn, label=f"{label}: {why}")
        return
    lost = f" ({len(seeds)} of {len(panel.results.runs(label))} seeds)" if panel.results.diverged_runs(label) else ""
    if window > 1:
        every = _band(seeds, unit)
        axes.plot([step * round for round in every[0]], every[1], color=look.colour, linewidth=0.5, alpha=0.25, zorder=1)
    rounds, means, low, high = _band({seed: _averaged(curve, window) for seed, curve in seeds.items()}, unit)
    rounds = [step * round for round in rounds]
    [line] = axes.plot(
        rounds, means, **drawn, label=label + lost, zorder=1.9 if look.proposed else 2
    )  # the heavy line hides none
    if len(seeds) > 1:
        axes.fill_between(rounds, low, high, color=look.colour, alpha=0.15, linewidth=0, zorder=1)
    apart = max(1, len(rounds) // 8)
    every = (index * apart // len(panel.results.labels), apart)  # side by side, so that equal curves show all their markers
    line.set_markevery(every)


def _difference(curve: Curve, other: Curve) -> Curve:
    """The difference in the rounds that both curves have."""
    at = dict(other)
    return [(round, value - at[round]) for round, value in curve if round in at]


def _averaged(curve: Curve, window: int) -> Curve:
    return list(smoothed(curve, window).items()) if window > 1 else curve


def _band(seeds: Mapping[int, Curve], unit: float) -> tuple[list[int], list[float], list[float], list[float]]:
    """Rounds, mean over seeds, and one standard deviation below and above it."""
    values = _by_round(seeds, unit)
    rounds = sorted(values)
    means = [statistics.fmean(values[round]) for round in rounds]
    spread = [statistics.stdev(values[round]) if len(values[round]) > 1 else 0.0 for round in rounds]
    low, high = ([mean + sign * wide for mean, wide in zip(means, spread, strict=True)] for sign in (-1, 1))
    return rounds, means, low, high


def _by_round(seeds: Mapping[int, Curve], unit: float = 1) -> dict[int, list[float]]:
    """Round -> the values of the seeds."""
    values = defaultdict(list)
    for curve in seeds.values():
        for round, value in curve:
            values[round].append(unit * value)
    return values


def _paper(
    axes: Any, panel: ExperimentView, curves: Mapping[str, Curve], drawn: Mapping[str, SeriesStyle], window: int
) -> None:
    """The paper's digitised curves, before ours, which are heavier; only where the scale allows to compare."""
    shown = _groups(panel, curves)
    last = max(int(row["round"]) for row in panel.results.rows)
    whole = {"linestyle": PAPER_DASHES, "linewidth": 1.2, "zorder": 3} if _alone(shown) else THIN | {"zorder": 2.5}
    for key, labels in shown.items():
        points = [(round, value) for round, value in _averaged(curves[key], window) if round <= last]
        rounds, values = [point[0] for point in points], [display_factor(panel.measure) * point[1] for point in points]
        colour = "black" if len(labels) > 1 and _alone(shown) else drawn[labels[0]].colour
        axes.plot(rounds, values, color=colour, **whole)
    axes.plot([], [], color="black", label=PAPER_LABEL, **whole)


def _groups(panel: ExperimentView, keys: Collection[str]) -> dict[str, list[str]]:
    """Those of the paper's curves that are drawn, and which of our series each is of."""
    shown: dict[str, list[str]] = {}
    for label, key in panel.display.reported.items():
        if key in keys:
            shown.setdefault(key, []).append(label)
    return shown


def _alone(groups: Mapping[str, list[str]]) -> bool:
    """Whether one curve of the paper is that of several series, and the only one: then it is drawn before all of them."""
    return len(groups) == 1 and len(next(iter(groups.values()))) > 1
