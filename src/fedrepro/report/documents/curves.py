"""The interactive charts of a paper's page: which figures have one, and their data.

Data and specification are a script, `curves.js` next to the page, since a page that is opened as a file may load no other data.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.page_view import display_name
from fedrepro.report.documents.vega_lite import SPECIFICATION
from fedrepro.report.figures import curves, panels
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import display_factor, measure_unit_name
from fedrepro.report.statistics import Curve, Estimate

FILE = "curves.js"


def charts(content: PaperContent) -> dict[str, list[dict[str, Any]]]:
    """Return figure -> the charts that explore it, one for each panel of curves that has results."""
    shown = {item["key"]: _members(content, item["key"]) for item in content.figures}
    return {key: [_chart(content, *member) for member in members.items()] for key, members in shown.items() if members}


def _members(content: PaperContent, key: str) -> dict[str, curves.Figure]:
    """Return the figures of curves with results that a figure shows, as its panels or itself, by key."""
    figures, evidence = content.spec.figures, content.evidence
    figure = figures[key]
    shown = {name: figures[name] for name in (figure.names if isinstance(figure, panels.Figure) else [key])}
    drawn = {name: member for name, member in shown.items() if isinstance(member, curves.Figure)}
    return {name: member for name, member in drawn.items() if not member.missing_reason(evidence)}


def _chart(content: PaperContent, key: str, figure: curves.Figure) -> dict[str, Any]:
    """Return the settings with which a chart opens, those of the figure."""
    smooth = content.evidence.panel(figure).results.at_scale(figure.smooth, 1)
    chart = {"name": display_name(content.spec, key), "curves": data_key(content, figure), "over": figure.over}
    return chart | {"minus": figure.baseline or "", "smooth": smooth}


def data_key(content: PaperContent, figure: curves.Figure) -> str:
    """Return the key of a figure's data; figures of one experiment share them unless they differ in the measure."""
    panel = content.evidence.panel(figure)
    own = content.evidence.experiments.get(figure.experiment)
    return figure.experiment if own and own.measure == panel.display.measure else f"{figure.experiment}:{panel.display.measure}"


def write(content: PaperContent, folder: Path) -> None:
    """Write `curves.js` into the paper's `folder`."""
    members = [figure for item in content.figures for figure in _members(content, item["key"]).values()]
    figures = {data_key(content, figure): figure for figure in members}
    views = {key: content.evidence.panel(figure) for key, figure in figures.items()}
    experiments = {key: _experiment(content, figures[key].experiment, view) for key, view in views.items()}
    factors = {curve: display_factor(view.measure) for view in views.values() for curve in view.display.reported.values()}
    most = max((len(series["seeds"]) for item in experiments.values() for series in item["series"].values()), default=1)
    values = {
        "specification": SPECIFICATION,
        "experiments": experiments,
        "paper": {curve: _columns(content.evidence.curves[curve], factor) for curve, factor in factors.items()},
        "comparable": any(view.comparable for view in views.values()),
        "quantiles": [0, 0, *(round(Estimate(0, 1, n).quantile(0.975), 4) for n in range(2, most + 1))],
    }
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    name = json.dumps(f"{content.scale}/{content.key}")
    (folder / FILE).write_text(f"(globalThis.fedrepro ??= {{}})[{name}] = {text};\n", encoding="utf-8")


def _experiment(content: PaperContent, name: str, view: ExperimentView) -> dict[str, Any]:
    """Return an experiment's curves; a series without finished runs is left out."""
    measure = view.measure
    series = {label: _series(content, view, label) for label in view.results.labels if view.curves(label)}
    text, unit = measure.label or measure.title, measure_unit_name(measure)
    return {"name": display_name(content.spec, name), "measure": text, "unit": unit, "series": series}


def _series(content: PaperContent, view: ExperimentView, label: str) -> dict[str, Any]:
    seeds, factor = view.curves(label), display_factor(view.measure)
    rounds = sorted({round for curve in seeds.values() for round, _ in curve})
    values = {
        "colour": content.evidence.styles_of(view.results)[label].colour,
        "epochs": view.setting(label, "local_epochs"),
        "rounds": rounds,
        "seeds": {seed: _aligned(curve, rounds, factor) for seed, curve in seeds.items()},
    }
    return values | ({"paper": view.display.reported[label]} if label in view.display.reported else {})


def _aligned(curve: Curve, rounds: Iterable[int], factor: int) -> list[float | None]:
    """Return the values of some rounds with five significant digits; None where none was measured."""
    values = {round: _short(factor * value) for round, value in curve}
    return [values.get(round) for round in rounds]


def _columns(curve: Curve, factor: int) -> dict[str, list]:
    return {"rounds": [round for round, _ in curve], "values": [_short(factor * value) for _, value in curve]}


def _short(value: float) -> float:
    return float(f"{value:.5g}")
