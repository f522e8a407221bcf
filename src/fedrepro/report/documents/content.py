"""What the documents that gather everything show of a paper, read back from its artifacts: the pages (html.py, view.py) and
`report.tex` (document.py)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.report import artifacts
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import Evidence
from fedrepro.report.paper import Paper
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts import summary


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
    folder: Path

    @property
    def scale(self) -> str:
        return next(iter(self.results.values())).note["scale"]

    @property
    def called(self) -> str:
        return next(iter(self.results.values())).called


def collect(key: str, spec: Paper, folder: Path, partitions: list[Path]) -> Content:
    """Read back a paper's artifacts from its `folder` (reports/<scale>/<paper>)."""
    found = artifacts.of(spec, folder)
    figures = [
        {
            "key": name,
            "title": figure.title,
            "experiments": figure.experiments(spec.figures),
            "caption": (folder / "figures" / f"{name}.txt").read_text(encoding="utf-8").strip(),
            "remark": figure.remark(found),
            "skipped": figure.skipped(found),
            "shows": figure.shows,
        }
        for name, figure in spec.figures.items()
    ]
    tables = [_table(name, table, found) for name, table in spec.tables.items()]
    results = {name: found.results[name] for name in spec.shown_experiments}
    there = [path for path in partitions if path.exists()]
    return Content(key, spec, results, figures, tables, summary.read(folder), there, folder)


def _table(key: str, table: Table, found: Evidence) -> dict[str, Any]:
    """A table as it is read: `rows`, the first with the columns; `shown` is whether there is any other; `best` are (row,
    column) of the bold numbers, from 0; `numeric` says of each column whether it holds numbers."""
    grid = table.build(found)
    return {
        "key": key,
        "title": table.title,
        "remark": table.remark(found),
        "rows": [grid.columns, *grid.texts()],
        "shown": bool(grid.rows),
        "best": grid.best,
        "numeric": [grid.numeric(column) for column in grid.columns],
        "experiments": table.experiments,
        "panels": {found.panel(ref).name: ref.experiment for ref in table.panels},
    }
