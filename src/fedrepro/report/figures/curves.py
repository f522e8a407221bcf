"""Curves over rounds of communication: mean over seeds, band of one standard deviation, the paper's curves dotted, the target
as a line."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from fedrepro.config import Fraction
from fedrepro.metrics import Curve
from fedrepro.report.evidence import Evidence, Panel, Ref
from fedrepro.report.figures import base
from fedrepro.report.figures._style import grid, looks, scale_note
from fedrepro.report.known import Known
from fedrepro.report.numbers import amount, factor


class Figure(base.Figure, Ref):
    """One experiment in one measure. `shown`: the part of the vertical axis that is drawn, by scale; else all."""

    shown: dict[str, tuple[Fraction, Fraction]] = {}
    shows: ClassVar = "accuracy over rounds of communication, one line per method; the numbers are in the table below"

    def check(self, known: Known) -> None:
        known.ref(self)
        known.at("shown").names("scale", self.shown, known.scales)

    def draw(self, axes: Any, evidence: Evidence) -> None:
        panel = evidence.panel(self)
        drawn = looks(panel.results)
        for index, label in enumerate(panel.results.labels):
            _line(axes, panel, label, index, drawn[label], 1.5 if index == 0 and len(drawn) <= 4 else 1)
        _paper(axes, panel, evidence.curves, drawn)
        self._frame(axes, panel)

    def _frame(self, axes: Any, panel: Panel) -> None:
        measure, unit = panel.measure, factor(panel.measure)
        if panel.target is not None:
            axes.axhline(unit * panel.target, color="0.5", linewidth=0.6, zorder=0)
            place = {"xy": (1, unit * panel.target), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            look = {"fontsize": 6, "color": "0.4", "ha": "left", "va": "center"}
            axes.annotate(amount(measure, panel.target), **place, xytext=(2, 0), **look)
        scale_note(axes, panel.results)
        axes.set(xlabel="round of communication", ylabel=measure.axis, xlim=(0, None))
        if measure.percent:
            low, high = self.shown.get(panel.scale, (None, None))
            top = 100.5 * high if high else min(axes.get_ylim()[1], 100.5)
            axes.set_ylim(100 * low if low is not None else None, top)
        grid(axes)

    def told(self, evidence: Evidence) -> list[str]:
        panel = evidence.panel(self)
        results, measure = panel.results, panel.measure
        many = len({run["seed"] for run in results.runs()}) > 1
        step = results.note["training"]["evaluate_every"]
        who = f"Mean over the {measure.over}, {measure.title}, in" if measure.over else f"Global model, {measure.title} after"
        spread = ", band of one standard deviation" if many else ", so no band"
        text = [f"{who} every {'round' if step == 1 else f'{step} rounds'}; {base.seeds([results])}{spread}."]
        text += [*base.lost(results), base.data([results])]
        if cut := self.shown.get(panel.scale):
            text.append(f"Only {100 * cut[0]:g} to {100 * cut[1]:g} % is shown.")
        if panel.full and panel.shown.reported:
            text.append("Dotted: the paper's curves, read from its PDF.")
        return text

    def caption(self, evidence: Evidence) -> str:
        text, runs = super().caption(evidence), self.first(evidence).runs()
        if self.skipped(evidence):
            return text
        how = sorted({f"{run['precision']}, {run['executor']} executor" for run in runs})
        return f"{text} {', '.join(how)}."


def _line(axes: Any, panel: Panel, label: str, index: int, look: Mapping[str, Any], width: float) -> None:
    seeds = panel.curves(label)
    if not seeds:
        why = "diverged" if panel.results.diverged(label) else "not measured"
        axes.plot([], [], color=look["color"], marker=look["marker"], markersize=3.5, label=f"{label}: {why}")
        return
    rounds, means, low, high = _band(seeds, factor(panel.measure))
    lost = f" ({len(seeds)} of {len(panel.results.runs(label))} seeds)" if panel.results.diverged(label) else ""
    [line] = axes.plot(rounds, means, color=look["color"], linewidth=width, label=label + lost)
    if len(seeds) > 1:
        axes.fill_between(rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)
    line.set_dashes(look["dashes"] or (None, None))
    step = max(1, len(rounds) // 8)
    every = (index * step // len(panel.results.labels), step)  # side by side, so that equal curves show all their markers
    line.set(marker=look["marker"], markersize=3.5, markeredgewidth=0.4, markeredgecolor="w", markevery=every)


def _band(seeds: Mapping[int, Curve], unit: float) -> tuple[list[int], list[float], list[float], list[float]]:
    """Rounds, mean over seeds, and one standard deviation below and above it."""
    values = defaultdict(list)
    for curve in seeds.values():
        for round, value in curve:
            values[round].append(unit * value)
    rounds = sorted(values)
    means = [statistics.fmean(values[round]) for round in rounds]
    spread = [statistics.stdev(values[round]) if len(values[round]) > 1 else 0.0 for round in rounds]
    low, high = ([mean + sign * wide for mean, wide in zip(means, spread, strict=True)] for sign in (-1, 1))
    return rounds, means, low, high


def _paper(axes: Any, panel: Panel, curves: Mapping[str, Curve], drawn: Mapping[str, dict]) -> None:
    """The paper's digitised curves, behind ours; only where the scale allows to compare."""
    if not panel.full:
        return
    last = max(int(row["round"]) for row in panel.results.rows)
    shown: dict[str, list[str]] = {}
    for label, key in panel.shown.reported.items():
        shown.setdefault(key, []).append(label)
    for key, labels in shown.items():
        points = [(round, factor(panel.measure) * value) for round, value in curves[key] if round <= last]
        colour = drawn[labels[0]]["color"] if len(labels) == 1 else "0.3"  # one curve for all: nobody's colour
        rounds, values = [point[0] for point in points], [point[1] for point in points]
        axes.plot(rounds, values, ":", color=colour, linewidth=0.9, alpha=0.8, zorder=1)
    if shown:
        axes.plot([], [], ":", color="0.3", linewidth=0.9, label="in the paper")
