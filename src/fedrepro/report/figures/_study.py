"""What figures share that are drawn from the rows of a study: which columns they need, which rows they show."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedrepro.core.errors import UserError
from fedrepro.report.figures import base
from fedrepro.report.figures._style import sort_categories
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.runs.reasons import MissingKind, MissingReason

StudyRow = Mapping[str, str]


class StudyFigure(base.Figure):
    """Rows of the first seed of some series (none named: all), in a panel for each value of the column `by`, or for those in
    `only`; of several rounds the last, unless `by`, or a column that is drawn, is the round."""

    experiment: str
    of: str  # the study
    series: tuple[str, ...] = ()
    by: str
    only: tuple[str | int, ...] = ()

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(name, self.of) for name in self.experiments(figures)]

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, self.of, self.series)

    def columns(self) -> list[str]:
        """The columns that it draws."""
        raise NotImplementedError

    def rows(self, results: Results, label: str) -> list[StudyRow]:
        """Those of a series' first seed. Raises UserError where a column is missing."""
        found = results.finished_rows(label)
        for column in (*self.columns(), self.by):
            if found and column not in found[0]:
                raise missing_column_error(self.title, column, found[0])
        wanted = [str(value) for value in self.only]
        rows = [row for row in found if row["seed"] == found[0]["seed"] and (not wanted or row[self.by] in wanted)]
        if "round" in (self.by, *self.columns()):
            return rows
        last = max((int(row["round"]) for row in rows if "round" in row), default=None)
        return [row for row in rows if last is None or int(row["round"]) == last]

    def labels_with_rows(self, results: Results) -> list[str]:
        return [label for label in self.series or results.labels if self.rows(results, label)]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        return self.first_results(evidence).series_missing_reason(self.series)

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        """A row for each series, in it a panel for each value of `by`."""
        results = self.first_results(evidence)
        if self.missing_reason(evidence) or not self.labels_with_rows(results):
            return [[base.FigurePanel("", self.draw, self.missing_reason(evidence) or MissingReason(MissingKind.NO_VALUES))]]
        rows = {label: self.rows(results, label) for label in self.labels_with_rows(results)}
        values = sort_categories({row[self.by] for found in rows.values() for row in found})
        found = []
        for label, own in rows.items():
            found.append(
                [self._figure_panel(label * (len(rows) > 1), own, value, value == values[-1], evidence) for value in values]
            )
        return found

    def _figure_panel(self, label: str, rows: list[StudyRow], value: str, last: bool, evidence: PaperData) -> base.FigurePanel:
        title = ", ".join(filter(None, [label, f"{self.by} {value}"]))
        picked = [row for row in rows if row[self.by] == value]
        return base.FigurePanel(title, lambda axes: self.draw_panel(axes, picked, evidence, last))

    def draw_panel(self, axes: Any, rows: list[StudyRow], evidence: PaperData, last: bool) -> None:
        """One panel of these rows; `last`: the rightmost one."""
        raise NotImplementedError

    def categories(self, evidence: PaperData, column: str) -> list[str]:
        """All values of a column, the same for every panel."""
        results = self.first_results(evidence)
        return sort_categories(
            {row[column] for label in self.labels_with_rows(results) for row in self.rows(results, label)} - {""}
        )

    def csv_rows(self, evidence: PaperData) -> list[list]:
        results, columns = self.first_results(evidence), list(dict.fromkeys([self.by, *self.columns()]))
        rows: list[list] = [["series", "seed", *columns]]
        for label in self.labels_with_rows(results):
            rows += [[label, row["seed"], *(row[column] for column in columns)] for row in self.rows(results, label)]
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        results = self.first_results(evidence)
        rows = {label: self.rows(results, label) for label in self.labels_with_rows(results)}
        seeds = {label: own[0]["seed"] for label, own in rows.items()}
        if len(set(seeds.values())) == 1:
            seed = f"Seed {next(iter(seeds.values()))}"
        else:
            seed = "; ".join(f"{label}: seed {own}" for label, own in seeds.items())
        shown = [", ".join([seed, *_round([row for own in rows.values() for row in own])]) + "."] if rows else []
        return [*shown, *base.diverged_sentences(results), base.data_sentence([results])]


def missing_column_error(title: str, column: str, row: StudyRow) -> UserError:
    """What answers a column that the rows of a figure's study do not have."""
    return UserError(f"{title}: no column '{column}' in the study: choose from {', '.join(row)}")


def _round(rows: list[StudyRow]) -> list[str]:
    """Which round all are of."""
    found = {row.get("round") for row in rows} - {None}
    return [f"round {found.pop()}"] if len(found) == 1 else []


def column_values(rows: Iterable[StudyRow], column: str) -> list[float]:
    return [float(row[column]) for row in rows]
