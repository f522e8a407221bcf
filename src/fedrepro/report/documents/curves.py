"""The interactive charts of a paper's page: which figures have one, and their data.

Data and specification are a script, `curves.js` next to the page, since a page that is opened as a file may load no other data.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrepro.report import figures as kinds
from fedrepro.report.documents.content import PaperContent, display_name
from fedrepro.report.documents.vega_lite import SPECIFICATION
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.numbers import display_factor, measure_unit_name
from fedrepro.report.statistics import Curve, Estimate

FILE = "curves.js"
Settings = dict[str, Any]  # with which a chart opens


@dataclass(frozen=True)
class Curves:
    """The curves of an experiment in one measure: series -> seed -> curve. Values times `factor` have the `unit`. `reported`:
    series -> key of the paper's curve."""

    key: str
    name: str
    measure: str
    unit: str
    results: Results
    by_series: Mapping[str, Mapping[int, Curve]]
    factor: float = 1
    reported: Mapping[str, str] = field(default_factory=dict)


def charts(content: PaperContent) -> dict[str, list[Settings]]:
    """Return figure -> the settings of the charts that explore it, one for each panel of curves over rounds with results."""
    shown = {entry.key: [settings for settings, _ in _charts(content, entry.key)] for entry in content.figures}
    return {key: found for key, found in shown.items() if found}


def _charts(content: PaperContent, key: str) -> Iterator[tuple[Settings, Curves]]:
    figures = content.spec.figures
    figure = figures[key]
    for name in figure.names if isinstance(figure, kinds.Composite) else [key]:
        member = figures[name]
        if member.missing_reason(content.evidence):
            continue
        if isinstance(member, kinds.Curves):
            yield _learning_curves(content, name, member)
        elif isinstance(member, kinds.Lines) and member.x == "round":
            yield from _study_curves(content, name, member)


def _learning_curves(content: PaperContent, key: str, figure: kinds.Curves) -> tuple[Settings, Curves]:
    """Return a figure's chart. Figures of one experiment share their curves unless they differ in the measure."""
    view, own = content.evidence.panel(figure), content.evidence.experiments.get(figure.experiment)
    measure, results = view.measure, view.results
    shared = own and own.measure == view.display.measure
    name = figure.experiment if shared else f"{figure.experiment}:{view.display.measure}"
    settings = {"name": display_name(content.spec, key), "curves": name, "over": figure.over}
    settings |= {"minus": figure.baseline or "", "smooth": results.at_scale(figure.smooth, 1)}
    title = display_name(content.spec, figure.experiment), measure.label or measure.title, measure_unit_name(measure)
    by_series = {label: view.curves(label) for label in results.labels}
    return settings, Curves(name, *title, results, by_series, display_factor(measure), view.display.reported)


def _study_curves(content: PaperContent, key: str, figure: kinds.Lines) -> Iterator[tuple[Settings, Curves]]:
    """Yield a chart for each experiment whose study has results."""
    measure, _, unit = figure.label.rstrip(")").rpartition(" (")
    for experiment, title in figure.names.items():
        results, name = content.evidence.study(experiment, figure.of), f"{experiment}-{figure.of}:{figure.y}"
        if not results.missing_reason:
            own = title if len(figure.names) > 1 else display_name(content.spec, key)
            settings = {"name": own, "curves": name, "over": "rounds", "minus": "", "smooth": 1}
            by_series = {label: _round_means(figure, results, label) for label in results.labels}
            yield settings, Curves(name, own, measure, unit, results, by_series, figure.factor)


def _round_means(figure: kinds.Lines, results: Results, label: str) -> dict[int, Curve]:
    """Return seed -> mean of the numbers of each round."""
    numbers: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rows_without_diverged(label):
        if row[figure.y] != "":
            numbers[int(row["seed"])][int(row[figure.x])].append(float(row[figure.y]))
    return {seed: [(round, statistics.fmean(values)) for round, values in means.items()] for seed, means in numbers.items()}


def write(content: PaperContent, folder: Path) -> None:
    """Write `curves.js` into the paper's `folder`."""
    shown = {own.key: own for entry in content.figures for _, own in _charts(content, entry.key)}
    experiments = {key: _experiment(content, own) for key, own in shown.items()}
    factors = {curve: own.factor for own in shown.values() for curve in own.reported.values()}
    most = max((len(series["seeds"]) for item in experiments.values() for series in item["series"].values()), default=1)
    values = {
        "specification": SPECIFICATION,
        "experiments": experiments,
        "paper": {
            curve: {"name": content.evidence.curve_name(curve)} | _columns(content.evidence.curves[curve], factor)
            for curve, factor in factors.items()
        },
        "comparable": any(own.results.compare == "full" for own in shown.values()),
        "quantiles": [0, 0, *(round(Estimate(0, 1, n).quantile(0.975), 4) for n in range(2, most + 1))],
    }
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    name = json.dumps(f"{content.scale}/{content.key}")
    (folder / FILE).write_text(f"(globalThis.fedrepro ??= {{}})[{name}] = {text};\n", encoding="utf-8")


def _experiment(content: PaperContent, own: Curves) -> dict[str, Any]:
    """Return an experiment's curves; a series without finished runs is left out."""
    series = {label: _series(content, own, label) for label, seeds in own.by_series.items() if seeds}
    return {"name": own.name, "measure": own.measure, "unit": own.unit, "series": series}


def _series(content: PaperContent, own: Curves, label: str) -> dict[str, Any]:
    seeds = own.by_series[label]
    rounds = sorted({round for curve in seeds.values() for round, _ in curve})
    values = {
        "colour": content.evidence.styles_of(own.results)[label].colour,
        "epochs": own.results.note["series"][label].get("config", {}).get("local_epochs"),
        "rounds": rounds,
        "seeds": {seed: _aligned(curve, rounds, own.factor) for seed, curve in seeds.items()},
    }
    return values | ({"paper": own.reported[label]} if label in own.reported else {})


def _aligned(curve: Curve, rounds: Iterable[int], factor: float) -> list[float | None]:
    """Return the values of some rounds with five significant digits; None where none was measured."""
    values = {round: _short(factor * value) for round, value in curve}
    return [values.get(round) for round in rounds]


def _columns(curve: Curve, factor: float) -> dict[str, list]:
    return {"rounds": [round for round, _ in curve], "values": [_short(factor * value) for _, value in curve]}


def _short(value: float) -> float:
    return float(f"{value:.5g}")
