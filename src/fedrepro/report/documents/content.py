"""What the documents that gather everything show of a paper, read back from its artifacts: the pages (html.py, page_view.py)
and `report.tex` (latex_report.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrepro.report import artifacts
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts import summary


@dataclass(frozen=True)
class PaperContent:
    """All that the documents show of one paper. `hours`: experiment -> core hours of its runs that are not finished."""

    key: str
    spec: Paper
    evidence: PaperData
    figures: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    verdicts: list[dict[str, str]]
    folder: Path
    hours: Mapping[str, float] = field(default_factory=dict)

    @property
    def results(self) -> dict[str, Results]:
        return {name: self.evidence.results[name] for name in self.spec.shown_experiments}

    @property
    def scale(self) -> str:
        return next(iter(self.results.values())).note["scale"]

    @property
    def name(self) -> str:
        return next(iter(self.results.values())).latex_name

    @property
    def not_shown(self) -> dict[str, tuple[str, str]]:
        """Figures and tables that have nothing to show -> why, and what it would cost where a run is all that they lack."""
        made = {item["key"] for item in (*self.figures, *self.tables)}
        return {key: self._reason(key) for key in [*self.spec.figures, *self.spec.tables] if key not in made}

    def _reason(self, key: str) -> tuple[str, str]:
        item = self.spec[key]
        experiments = self.experiments(key)
        reasons = [item.missing_reason(self.evidence)] if key in self.spec.figures else []
        reasons += [self.results[name].missing_reason for name in experiments]
        told = "; ".join(dict.fromkeys(str(reason) for reason in reasons if reason))
        hours = sum(self.hours.get(name, 0) for name in experiments)
        return told, f" (about {_rounded(hours)} core hours)" if hours else ""

    def experiments(self, key: str) -> list[str]:
        """Whose runs are behind a figure or table."""
        item = self.spec[key]
        return item.experiments(self.spec.figures) if key in self.spec.figures else item.experiments


def _rounded(hours: float) -> str:
    """Two digits."""
    return f"{hours:.1f}" if hours < 10 else f"{float(f'{hours:.2g}'):,.0f}"


def collect(key: str, spec: Paper, folder: Path, hours: Mapping[str, float]) -> PaperContent:
    """Read back a paper's artifacts from its `folder` (reports/<scale>/<paper>)."""
    found = artifacts.load_paper_data(spec, folder)
    shown = artifacts.available_artifacts(spec, found)
    figures = [
        {
            "key": name,
            "title": figure.title,
            "caption": figure.caption(found),
            "remark": figure.description(found),
            "shows": figure.alt_text,
        }
        for name, figure in spec.figures.items()
        if name in shown
    ]
    tables = [_table(name, table, found) for name, table in spec.tables.items() if name in shown]
    return PaperContent(key, spec, found, figures, tables, summary.read_verdicts(folder), folder, hours)


def _table(key: str, table: Table, found: PaperData) -> dict[str, Any]:
    """A table as it is read: `rows`, the first with the columns; `best` are (row, column) of the bold numbers, from 0;
    `numeric` says of each column whether it holds numbers."""
    grid = table.build(found)
    return {
        "key": key,
        "title": table.title,
        "remark": table.description(found),
        "rows": [grid.columns, *grid.text_rows()],
        "best": grid.best_cells,
        "numeric": [grid.is_numeric(column) for column in grid.columns],
        "panels": {found.panel(ref).name: ref.experiment for ref in table.panels},
    }
