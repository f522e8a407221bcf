"""Base class of figures drawn from the rows of a study."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.report.figures import base
from fedrepro.report.figures._style import sort_categories
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.runs.reasons import MissingKind, MissingReason

StudyRow = dict[str, str]  # column -> value


class StudyFigure(base.Figure):
    """A figure of a study: rows of the first seed of the series in `series` (empty: all), in a panel for each value of the
    column `by`, or for the values in `only`. Only the last round is shown, unless `by` or a drawn column is the round."""

    experiment: str
    of: str  # the study
    series: tuple[str, ...] = ()
    by: str
    only: tuple[str | int, ...] = ()

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [self.experiment]

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(self.experiment, self.of)]

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, self.of, self.series)

    def columns(self) -> list[str]:
        """Return the study's columns that are drawn."""
        raise NotImplementedError

    def rows(self, results: Results, label: str) -> list[StudyRow]:
        """Return the rows that are shown of a series. Raises UserError if a column is missing."""
        rows = results.rows_without_diverged(label)
        for column in (*self.columns(), self.by):
            if rows and column not in rows[0]:
                raise missing_column_error(self.title, column, rows[0])
        values = [str(value) for value in self.only]
        rows = [row for row in rows if row["seed"] == rows[0]["seed"] and (not values or row[self.by] in values)]
        if "round" in (self.by, *self.columns()):
            return rows
        last = max((int(row["round"]) for row in rows if "round" in row), default=None)
        return [row for row in rows if last is None or int(row["round"]) == last]

    def labels_with_rows(self, results: Results) -> list[str]:
        return [label for label in self.series or results.labels if self.rows(results, label)]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        return self.first_results(evidence).series_missing_reason(self.series)

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        """Return a row of panels for each series, with a panel for each value of `by`."""
        results = self.first_results(evidence)
        reason = self.missing_reason(evidence)
        if reason is None and not self.labels_with_rows(results):
            reason = MissingReason(MissingKind.NO_VALUES)
        if reason:
            return [[base.FigurePanel("", lambda axes: None, reason)]]
        rows = {label: self.rows(results, label) for label in self.labels_with_rows(results)}
        values = sort_categories({row[self.by] for series_rows in rows.values() for row in series_rows})
        grid = []
        for label, series_rows in rows.items():
            title = label if len(rows) > 1 else ""
            grid.append([self._figure_panel(title, series_rows, value, value == values[-1], evidence) for value in values])
        return grid

    def _figure_panel(self, label: str, rows: list[StudyRow], value: str, last: bool, evidence: PaperData) -> base.FigurePanel:
        title = ", ".join(filter(None, [label, f"{self.by} {value}"]))
        panel_rows = [row for row in rows if row[self.by] == value]
        return base.FigurePanel(title, lambda axes: self.draw_panel(axes, panel_rows, evidence, last))

    def draw_panel(self, axes: Any, rows: list[StudyRow], evidence: PaperData, last: bool) -> None:
        """Draw the rows of a panel; `last` says whether it is the rightmost one."""
        raise NotImplementedError

    def categories(self, evidence: PaperData, column: str) -> list[str]:
        """Return all values of a column, the same for every panel."""
        results = self.first_results(evidence)
        values: set[str] = set()
        for label in self.labels_with_rows(results):
            values |= {row[column] for row in self.rows(results, label)}
        return sort_categories(values - {""})

    def category_name(self, evidence: PaperData, column: str, value: str) -> str:
        """Return a value of a column in words; a class has its name in the data set."""
        results = self.first_results(evidence)
        configs = [series.get("config", {}) for series in results.note["series"].values()]
        choice = configs[0].get("dataset") if configs else None
        names = datasets.classes(choice) if choice and column == "class" else ()
        return names[int(value)] if value.isdecimal() and int(value) < len(names) else f"{column} {value}"

    def csv_rows(self, evidence: PaperData) -> list[list]:
        results, columns = self.first_results(evidence), list(dict.fromkeys([self.by, *self.columns()]))
        rows: list[list] = [["series", "seed", *columns]]
        for label in self.labels_with_rows(results):
            rows += [[label, row["seed"], *(row[column] for column in columns)] for row in self.rows(results, label)]
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        results = self.first_results(evidence)
        seeds: dict[str, str] = {}
        rounds: set[str | None] = set()
        for label in self.labels_with_rows(results):
            rows = self.rows(results, label)
            seeds[label] = rows[0]["seed"]
            rounds |= {row.get("round") for row in rows}
        if len(set(seeds.values())) == 1:
            seed = f"Seed {next(iter(seeds.values()))}"
        else:
            seed = "; ".join(f"{label}: seed {seed}" for label, seed in seeds.items())
        rounds.discard(None)
        round = f", round {rounds.pop()}" if len(rounds) == 1 else ""
        sentences = [f"{seed}{round}."] if seeds else []
        return [*sentences, *base.diverged_sentences(results), base.data_sentence([results])]


def missing_column_error(title: str, column: str, row: Mapping[str, str]) -> UserError:
    """Return the error for a column that the rows of a figure's study do not have."""
    return UserError(f"{title}: no column '{column}' in the study: choose from {', '.join(row)}")


def column_values(rows: Iterable[StudyRow], column: str) -> list[float]:
    return [float(row[column]) for row in rows]
