"""The interactive charts of a paper's page: which figures have one, and their data.

Data and specification are a script, `curves.js` next to the page, since a page that is opened as a
file may load no other data.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrepro.report import figures as kinds
from fedrepro.report.documents.content import PaperContent, display_name
from fedrepro.report.documents.vega_lite import SPECIFICATION
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.numbers import display_factor, measure_unit_name
from fedrepro.report.statistics import Curve, Estimate, grouped, mean

FILE = "curves.js"


@dataclass(frozen=True)
class Chart:
    """The curves of an experiment in one measure, series -> seed -> curve, and the `settings` with
    which the chart opens. Values times `factor` have the `unit`. `reported`: series -> key of the
    paper's curve."""

    settings: dict[str, Any]
    name: str
    measure: str
    unit: str
    results: Results
    by_series: Mapping[str, Mapping[int, Curve]]
    factor: float = 1
    reported: Mapping[str, str] = field(default_factory=dict)


def find_charts(content: PaperContent) -> dict[str, list[Chart]]:
    """Return figure -> the charts that explore it, one for each panel of curves over rounds with
    results."""
    found = {entry.key: list(_charts(content, entry.key)) for entry in content.figures}
    return {key: charts for key, charts in found.items() if charts}


def _charts(content: PaperContent, key: str) -> Iterator[Chart]:
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


def _learning_curves(content: PaperContent, key: str, figure: kinds.Curves) -> Chart:
    """Return a figure's chart. Figures of one experiment share their curves unless they differ in
    the measure."""
    view, own = content.evidence.panel(figure), content.evidence.experiments.get(figure.experiment)
    measure, results = view.measure, view.results
    shared = own and own.measure == view.display.measure
    name = figure.experiment if shared else f"{figure.experiment}:{view.display.measure}"
    settings = {"name": display_name(content.spec, key), "curves": name, "over": figure.over}
    settings |= {"minus": figure.baseline or "", "smooth": results.at_scale(figure.smooth, 1)}
    title = (
        display_name(content.spec, figure.experiment),
        measure.label or measure.title,
        measure_unit_name(measure),
    )
    by_series = {label: view.curves(label) for label in results.labels}
    return Chart(
        settings, *title, results, by_series, display_factor(measure), view.display.reported
    )


def _study_curves(content: PaperContent, key: str, figure: kinds.Lines) -> Iterator[Chart]:
    """Yield a chart for each experiment whose study has results."""
    measure, _, unit = figure.label.rstrip(")").rpartition(" (")
    for experiment, title in figure.names.items():
        results, name = (
            content.evidence.study(experiment, figure.of),
            f"{experiment}-{figure.of}:{figure.y}",
        )
        if not results.missing_reason:
            own = title if len(figure.names) > 1 else display_name(content.spec, key)
            settings = {"name": own, "curves": name, "over": "rounds", "minus": "", "smooth": 1}
            by_series = {label: _round_means(figure, results, label) for label in results.labels}
            yield Chart(settings, own, measure, unit, results, by_series, figure.factor)


def _round_means(figure: kinds.Lines, results: Results, label: str) -> Mapping[int, Curve]:
    """Return seed -> mean of the numbers of each round."""
    rows = [row for row in results.rows_without_diverged(label) if row[figure.y] != ""]
    groups = grouped(((int(row["seed"]), int(row[figure.x])), float(row[figure.y])) for row in rows)
    return grouped((seed, (round, mean(values))) for (seed, round), values in groups.items())


def write(content: PaperContent, charts: Mapping[str, list[Chart]], folder: Path) -> None:
    """Write `curves.js` into the paper's `folder`. A series without finished runs is left out."""
    shown = {chart.settings["curves"]: chart for own in charts.values() for chart in own}
    reported = {
        curve: chart.factor for chart in shown.values() for curve in chart.reported.values()
    }
    most = max(
        (len(seeds) for chart in shown.values() for seeds in chart.by_series.values()), default=1
    )
    values = {
        "specification": SPECIFICATION,
        "experiments": {
            key: {
                "name": chart.name,
                "measure": chart.measure,
                "unit": chart.unit,
                "series": {
                    label: _series(content, chart, label)
                    for label, seeds in chart.by_series.items()
                    if seeds
                },
            }
            for key, chart in shown.items()
        },
        "paper": {
            curve: {
                "name": content.evidence.curve_name(curve),
                "rounds": [round for round, _ in content.evidence.curves[curve]],
                "values": [_short(factor * value) for _, value in content.evidence.curves[curve]],
            }
            for curve, factor in reported.items()
        },
        "comparable": any(chart.results.compare == "full" for chart in shown.values()),
        "quantiles": [0, 0, *(round(Estimate(0, 1, n).quantile, 4) for n in range(2, most + 1))],
    }
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    name = json.dumps(f"{content.scale}/{content.key}")
    (folder / FILE).write_text(
        f"(globalThis.fedrepro ??= {{}})[{name}] = {text};\n", encoding="utf-8"
    )


def _series(content: PaperContent, chart: Chart, label: str) -> dict[str, Any]:
    """Return the curves of a series, with None for each round that a seed did not measure."""
    seeds = {seed: dict(curve) for seed, curve in chart.by_series[label].items()}
    rounds = sorted(set().union(*seeds.values()))
    values = {
        "colour": content.evidence.styles_of(chart.results)[label].colour,
        "epochs": chart.results.note["series"][label].get("config", {}).get("local_epochs"),
        "rounds": rounds,
        "seeds": {
            seed: [
                _short(chart.factor * curve[round]) if round in curve else None for round in rounds
            ]
            for seed, curve in seeds.items()
        },
    }
    return values | ({"paper": chart.reported[label]} if label in chart.reported else {})


def _short(value: float) -> float:
    """Return a value with five significant digits."""
    return float(f"{value:.5g}")
