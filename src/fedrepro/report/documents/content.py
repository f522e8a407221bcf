"""The content of a paper that both its page and `report.tex` show, read from its artifacts."""

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
    """The content of a paper. `hours`: experiment -> core hours of its runs that are not finished."""

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
        """Figure or table that shows nothing -> the reason, and the cost of its missing runs (empty for none)."""
        made = {item["key"] for item in (*self.figures, *self.tables)}
        return {key: self._reason(key) for key in [*self.spec.figures, *self.spec.tables] if key not in made}

    def _reason(self, key: str) -> tuple[str, str]:
        figure, experiments = self.spec.figures.get(key), self.experiments(key)
        reasons = [figure.missing_reason(self.evidence)] if figure else []
        reasons += [self.results[name].missing_reason for name in experiments]
        text = "; ".join(dict.fromkeys(str(reason) for reason in reasons if reason))
        hours = sum(self.hours.get(name, 0) for name in experiments)
        return text, f" (about {format_hours(hours)} core hours)" if hours else ""

    def experiments(self, key: str) -> list[str]:
        """Return the experiments whose runs a figure or table shows."""
        figures = self.spec.figures
        return figures[key].experiments(figures) if key in figures else self.spec.tables[key].experiments


def format_hours(hours: float) -> str:
    """Format a number of hours with two significant digits."""
    return f"{hours:.1f}" if hours < 10 else f"{float(f'{hours:.2g}'):,.0f}"


def collect(key: str, spec: Paper, folder: Path, hours: Mapping[str, float]) -> PaperContent:
    """Read the content of a paper from its `folder`, reports/<scale>/<paper>."""
    evidence = artifacts.load_paper_data(spec, folder)
    shown = artifacts.available_artifacts(spec, evidence)
    figures = [
        {
            "key": name,
            "title": figure.title,
            "caption": figure.caption(evidence),
            "remark": figure.description(evidence),
            "shows": figure.alt_text,
        }
        for name, figure in spec.figures.items()
        if name in shown
    ]
    tables = [_table(name, table, evidence) for name, table in spec.tables.items() if name in shown]
    return PaperContent(key, spec, evidence, figures, tables, summary.read_verdicts(folder), folder, hours)


def _table(key: str, table: Table, evidence: PaperData) -> dict[str, Any]:
    """Return a table as a record. The first of its `rows` holds the column titles; `best` are the bold numbers as (row,
    column), both from 0; `numeric` says for each column whether it holds numbers; `paper_rows` hold the paper's values."""
    grid = table.build(evidence).folded()
    return {
        "key": key,
        "title": table.title,
        "remark": table.description(evidence),
        "rows": [grid.columns, *grid.text_rows()],
        "best": grid.best_cells,
        "paper_rows": grid.paper_rows,
        "numeric": [grid.is_numeric(column) for column in grid.columns],
        "panels": {evidence.panel(ref).name: ref.experiment for ref in table.panels},
    }
