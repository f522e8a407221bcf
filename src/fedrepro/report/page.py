"""The two documents that gather everything: `index.html`, one file that needs nothing else, and `report.tex`."""

import base64
import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from fedrepro.report import artifacts
from fedrepro.report.latex import escape
from fedrepro.report.loading import Results
from fedrepro.report.plain import write_plain
from fedrepro.report.spec import VERDICTS, Paper


@dataclass(frozen=True)
class Content:
    """All that the documents show of one paper."""

    key: str
    spec: Paper
    results: dict[str, Results]
    figures: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    verdicts: list[dict[str, str]]
    partitions: list[Path]


def compose(specs: dict[str, Paper], folder: Path, partitions: dict[str, list[Path]]) -> None:
    """All documents of a scale, from the artifacts below `folder`; beside them metrics.json and curves.csv for DVC."""
    papers = [collect(key, spec, folder / key, partitions.get(key, [])) for key, spec in specs.items()]
    write(papers, folder)
    write_plain({paper.key: paper.results for paper in papers}, folder)


def collect(key: str, spec: Paper, folder: Path, partitions: list[Path]) -> Content:
    """Read back a paper's artifacts from its `folder` (reports/<scale>/<paper>)."""
    found = artifacts.of(spec, folder)
    figures = [
        {
            "key": name,
            "title": figure.title,
            "experiments": figure.experiments(spec.figures),
            "caption": (folder / "figures" / f"{name}.txt").read_text(encoding="utf-8").strip(),
            "png": folder / "figures" / f"{name}.png",
            "skipped": figure.skipped(found),
            "shows": figure.shows,
        }
        for name, figure in spec.figures.items()
    ]
    tables = [
        {
            "key": name,
            "title": table.title,
            "remark": table.remark(found),
            "rows": _rows(folder / "tables" / f"{name}.csv"),
            "experiments": table.experiments,
            "panels": {ref.key: ref.experiment for ref in table.panels},
        }
        for name, table in spec.tables.items()
    ]
    with (folder / "tables" / f"{VERDICTS}.csv").open(encoding="utf-8", newline="") as file:
        verdicts = list(csv.DictReader(file))
    for verdict in verdicts:
        verdict["experiment"] = spec.claims[verdict["Key"]].experiment
    results = {name: found.results[name] for name in spec.shown_experiments}
    return Content(key, spec, results, figures, tables, verdicts, [path for path in partitions if path.exists()])


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def write(papers: list[Content], folder: Path) -> None:
    """`<folder>/index.html` and `<folder>/report.tex`, which `typeset.py` makes a PDF of."""
    first = next(iter(papers[0].results.values())).note
    shared = {"papers": papers, "scale": first["scale"], "note": first["scale_note"], "tally": _tally}
    html = _environment(autoescape=True).get_template("index.html.j2").render(shared | {"picture": _picture})
    (folder / "index.html").write_text(html, encoding="utf-8")
    brackets = {
        "block_start_string": "<%",
        "block_end_string": "%>",
        "variable_start_string": "<<",
        "variable_end_string": ">>",
    }
    environment = _environment(autoescape=False, comment_start_string="<#", comment_end_string="#>", **brackets)
    environment.filters["tex"] = escape
    (folder / "report.tex").write_text(environment.get_template("report.tex.j2").render(shared), encoding="utf-8")


def _environment(**options: Any) -> jinja2.Environment:
    loader = jinja2.PackageLoader("fedrepro.report")
    return jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )


def _picture(path: Path) -> str:
    """A PNG as a data address, so that the page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _tally(verdicts: list[dict[str, str]]) -> dict[str, int]:
    return dict(Counter(verdict["Verdict"] for verdict in verdicts))
