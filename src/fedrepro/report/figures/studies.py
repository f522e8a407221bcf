"""Figures drawn from the rows of a study: images of a matrix, points in a plane, and lines over one of its columns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat

from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.report.figures import base
from fedrepro.report.figures._style import (
    category_colours,
    draw_band,
    draw_grid_lines,
    limit_to_lines,
    series_styles,
    sort_categories,
)
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import DASHES, MARKERS, SeriesStyle
from fedrepro.report.quantities.studies import ACTIVATIONS, failure
from fedrepro.report.statistics import ROUNDING, estimate, grouped
from fedrepro.runs.reasons import MissingKind, MissingReason

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Row = dict[str, str]  # column -> value
Rows = Mapping[str, list[Row]]  # by series


class StudyFigure(base.Figure):
    """A figure of a study: rows of the first seed of the series in `series` (empty: all), in a panel for each value of the
    column `by`, or for the values in `only`. Only the last round is shown, unless `by` or a drawn column is the round."""

    experiment: str
    of: str  # the study
    series: tuple[str, ...] = ()
    by: str
    only: tuple[str | int, ...] = ()

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(self.experiment, self.of)]

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, self.of, self.series)

    def columns(self) -> list[str]:
        """Return the study's columns that are drawn."""
        raise NotImplementedError

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        return [ExperimentView(self.experiment, DisplayOptions(), evidence.study(self.experiment, self.of))]

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        return view.results.series_missing_reason(self.series)

    @base.computed_once
    def data(self, evidence: PaperData) -> dict[str, list[Row]]:
        """Return the rows that are shown of each series that has any. Raises UserError if a column is missing."""
        results = self.first_results(evidence)
        shown = {label: self._rows(results.rows_without_diverged(label)) for label in self.series or results.labels}
        return {label: rows for label, rows in shown.items() if rows}

    def _rows(self, rows: list[Row]) -> list[Row]:
        for column in (*self.columns(), self.by):
            check_column(self.title, column, rows)
        values = [str(value) for value in self.only]
        rows = [row for row in rows if row["seed"] == rows[0]["seed"] and (not values or row[self.by] in values)]
        if "round" in (self.by, *self.columns()):
            return rows
        last = max((int(row["round"]) for row in rows if "round" in row), default=None)
        return [row for row in rows if last is None or int(row["round"]) == last]

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        """Return a row of panels for each series, with a panel for each value of `by`."""
        reason = self.missing_reason(evidence)
        data = {} if reason else self.data(evidence)
        if not data:
            return [[base.FigurePanel("", lambda axes: None, reason or MissingReason(MissingKind.NO_VALUES))]]
        panels = {label: grouped((row[self.by], row) for row in rows) for label, rows in data.items()}
        grid = []
        for label, by_value in panels.items():
            row = []
            for value in self.categories(data, self.by):
                own = by_value.get(value, [])
                title = self.panel_title(label if len(data) > 1 else "", value, own)
                row.append(base.FigurePanel(title, partial(self.draw_panel, rows=own, data=data, evidence=evidence)))
            grid.append(row)
        return grid

    def panel_title(self, label: str, value: str, rows: list[Row]) -> str:
        return ", ".join(filter(None, [label, f"{self.by} {value}"]))

    def draw_panel(self, axes: Any, rows: list[Row], data: Rows, evidence: PaperData) -> None:
        """Draw the rows of a panel; `data`: those of all panels."""
        raise NotImplementedError

    def categories(self, data: Rows, column: str) -> list[str]:
        """Return all values of a column, the same for every panel."""
        return sort_categories({row[column] for rows in data.values() for row in rows} - {""})

    def category_name(self, evidence: PaperData, column: str, value: str) -> str:
        """Return a value of a column in words; a class has its name in the data set."""
        configs = [series.get("config", {}) for series in self.first_results(evidence).note["series"].values()]
        choice = configs[0].get("dataset") if configs else None
        names = datasets.classes(choice) if choice and column == "class" else ()
        return names[int(value)] if value.isdecimal() and int(value) < len(names) else f"{column} {value}"

    def csv_rows(self, evidence: PaperData) -> list[list]:
        columns = list(dict.fromkeys([self.by, *self.columns()]))
        rows = [(label, row) for label, own in self.data(evidence).items() for row in own]
        return [["series", "seed", *columns], *([label, row["seed"], *(row[name] for name in columns)] for label, row in rows)]

    def explanations(self, evidence: PaperData) -> list[str]:
        data, results = self.data(evidence), self.first_results(evidence)
        seeds = {label: rows[0]["seed"] for label, rows in data.items()}
        rounds = {row["round"] for rows in data.values() for row in rows if "round" in row}
        seed = "; ".join(f"{label}: seed {seed}" for label, seed in seeds.items())
        if len(set(seeds.values())) == 1:
            seed = f"Seed {next(iter(seeds.values()))}"
        round = f", round {rounds.pop()}" if len(rounds) == 1 else ""
        sentences = [f"{seed}{round}."] if seeds else []
        return [*sentences, *base.diverged_sentences(results), base.data_sentence([results])]


def check_column(title: str, column: str, rows: list[Row]) -> None:
    """Raise UserError if the rows of a figure's study lack a column."""
    if rows and column not in rows[0]:
        raise UserError(f"{title}: no column '{column}' in the study: choose from {', '.join(rows[0])}")


class Maps(StudyFigure):
    """Images of a matrix of a study, such as layer by neuron, in which a cell's colour shows its category. `row`, `column`,
    `value`: columns of the study; rows may differ in length. `none`: the value that means no category."""

    row: str
    column: str
    value: str
    none: str | int = ""
    alt_text: ClassVar = "a matrix as an image, coloured by category"
    height: ClassVar = 2.6

    def columns(self) -> list[str]:
        return [self.row, self.column, self.value]

    def _rows(self, rows: list[Row]) -> list[Row]:
        """Return the rows of a series, with an empty value for no category."""
        return [row | {self.value: ""} if row[self.value] == str(self.none) else row for row in super()._rows(rows)]

    def panel_title(self, label: str, value: str, rows: list[Row]) -> str:
        return super().panel_title(", ".join(filter(None, [self.name, label])), value, rows)

    def draw_panel(self, axes: Any, rows: list[Row], data: Rows, evidence: PaperData) -> None:
        from matplotlib.colors import to_rgb

        lines = list(dict.fromkeys(row[self.row] for row in rows))
        places = {value: place for place, value in enumerate(sort_categories({row[self.column] for row in rows}))}
        colours = category_colours(self.categories(data, self.value))
        image = [[(1.0, 1.0, 1.0)] * len(places) for _ in lines]
        for row in rows:
            if row[self.value] != "":
                image[lines.index(row[self.row])][places[row[self.column]]] = to_rgb(colours[row[self.value]])
        axes.imshow(image, aspect="auto", interpolation="nearest")
        if any(row[self.value] == "" for row in rows):
            axes.scatter([], [], marker="s", s=16, color="white", edgecolor="0.6", linewidths=0.5, label=f"no {self.value}")
        for value, colour in colours.items():
            name = self.category_name(evidence, self.value, value)
            axes.scatter([], [], marker="s", s=16, color=to_rgb(colour), label=name)
        axes.set(xlabel=self.column, ylabel=self.row)
        axes.set_yticks(range(len(lines)), lines)
        axes.locator_params(axis="x", integer=True)

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return sentences also on how many columns have the same value in all rows, panel by panel."""
        no_value = f", or no {self.value}" if self.none != "" else ""
        sentences = [f"White: no {self.column} of that number{no_value}."]
        same = f"{self.column}s with the same {self.value} in all {self.row}s, of those with a {self.value} in all"
        for label, rows in self.data(evidence).items():
            panels = grouped((row[self.by], row) for row in rows)
            shares = [f"{value} {_format_agreement(*agreement(panels[value], self))}" for value in sort_categories({*panels})]
            sentences.append(f"{label}: {same}: {', '.join(shares)}.")
        return [*sentences, *super().explanations(evidence)]


def agreement(rows: list[Row], figure: Maps) -> tuple[int, int, int]:
    """Return the numbers of columns with one value in all rows, of columns with a value in all rows, and of all columns."""
    columns = grouped((row[figure.column], row[figure.value]) for row in rows)
    full = [values for values in columns.values() if "" not in values]
    return sum(len(set(values)) == 1 for values in full), len(full), len(columns)


def _format_agreement(same: int, full: int, total: int) -> str:
    share = f"{100 * same / full:.0f} %; " if full else ""
    return f"{same} of {full} ({share}{total} in total)"


class Scatter(StudyFigure):
    """Points of a study, such as features in two dimensions. `x`, `y`, `colour`, `letter`: columns of the study; axes have no
    numbers. `note`: a column of shares, 0..1, with one value per panel, shown in the panel's title."""

    x: str
    y: str
    colour: str
    letter: str
    note: str | None = None
    alt_text: ClassVar = "points in a plane, coloured by category"
    height: ClassVar = 3.0

    def columns(self) -> list[str]:
        return [self.x, self.y, self.colour, self.letter, *filter(None, [self.note])]

    def panel_title(self, label: str, value: str, rows: list[Row]) -> str:
        share = f": {self.note} {100 * float(rows[0][self.note]):.1f} %" if self.note and rows else ""
        return super().panel_title(label, value, rows) + share

    def draw_panel(self, axes: Any, rows: list[Row], data: Rows, evidence: PaperData) -> None:
        letters = self._letters(data)
        for value, colour in category_colours(self.categories(data, self.colour)).items():
            axes.scatter([], [], s=12, color=colour, label=self.category_name(evidence, self.colour, value))
            for category, letter in letters.items():
                points = [row for row in rows if row[self.colour] == value and row[self.letter] == category]
                x, y = ([float(row[column]) for row in points] for column in (self.x, self.y))
                axes.scatter(x, y, s=16, color=colour, marker=rf"$\mathrm{{{letter}}}$", linewidths=0)
        names = [f"{letter} = {self.letter} {value}" for value, letter in letters.items()]
        marker, label = rf"$\mathrm{{{LETTERS[0]}}}$", f"{names[0]} ... {names[-1]}"
        axes.scatter([], [], s=16, color="0.3", marker=marker, linewidths=0, label=label)
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])

    def _letters(self, data: Rows) -> dict[str, str]:
        """Return the letter of each value of the letter column."""
        return {value: LETTERS[place % len(LETTERS)] for place, value in enumerate(self.categories(data, self.letter))}

    def explanations(self, evidence: PaperData) -> list[str]:
        letters = ", ".join(f"{letter} {value}" for value, letter in self._letters(self.data(evidence)).items())
        return [f"Letters: {self.letter} ({letters}).", *super().explanations(evidence)]


@dataclass(frozen=True)
class StudyLine:
    """A line: the numbers of its rows, and x -> the mean of each seed's."""

    view: ExperimentView
    label: str
    cells: list[str]
    means: Mapping[str, list[float]]


class Lines(base.Figure):
    """Lines over a column of a study, such as the layer or the round, one for each series of each experiment: means over seeds
    with their 95 % intervals as bands, of the column `y`, averaged over the rows of a run. `names`: experiment -> its name in
    the legend. Words on the horizontal axis are in the order of the rows."""

    names: dict[str, str] = Field(min_length=1)
    of: str  # the study
    x: str
    y: str
    label: str  # of the vertical axis, with its unit
    factor: PositiveFloat = 1.0  # from the column to the axis
    alt_text: ClassVar = "a number over layers or rounds, one line per method"

    def check(self, checker: ReferenceChecker) -> None:
        for name in self.names:
            checker.at("names").check_study(name, self.of)

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(name, self.of) for name in self.names] + [*self.names] * (self.of == ACTIVATIONS)

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        named = {key: DisplayOptions(name=name) for key, name in self.names.items()}
        return [ExperimentView(key, shown, evidence.study(key, self.of), evidence.results) for key, shown in named.items()]

    @base.computed_once
    def data(self, evidence: PaperData) -> list[StudyLine]:
        """Return the lines of all experiments that have results."""
        lines: list[StudyLine] = []
        for view in self.available(evidence):
            for label in view.results.labels:
                rows = view.results.rows_without_diverged(label)
                for column in (self.x, self.y):
                    check_column(self.title, column, rows)
                numbers = grouped((row[self.x], row) for row in rows if row[self.y] != "")
                means = {x: self._means(own) for x, own in numbers.items()}
                lines += [StudyLine(view, label, [row[self.y] for row in rows], means)] if rows else []
        return lines

    def _means(self, rows: list[Row]) -> list[float]:
        return [fmean(values) for values in grouped((row["seed"], self.factor * float(row[self.y])) for row in rows).values()]

    def draw(self, axes: Any, evidence: PaperData) -> None:
        lines, keys = self.data(evidence), [view.key for view in self.available(evidence)]
        places = _places([x for line in lines for x in line.means])
        styles = series_styles(evidence, [view.results for view in self.available(evidence)])
        notes: list[tuple[float, float, str, str]] = []
        for line in lines:
            title = f"{line.view.name}, {line.label}" if len(keys) > 1 else line.label
            style, xs, seeds = styles[line.label], [places[x] for x in line.means], list(line.means.values())
            _draw_line(axes, xs, seeds, keys.index(line.view.key), style, title)
            if self.of == ACTIVATIONS and (how := failure(line.view, line.label, line.view.key)):
                notes.append((xs[-1], fmean(seeds[-1]), how, style.colour))
        limit_to_lines(axes)
        for x, y, text, colour in notes:
            below = len(notes) > 1 and y == min(note[1] for note in notes)
            offset = {"xytext": (0, -4 if below else 4), "textcoords": "offset points", "ha": "right"}
            axes.annotate(text, (x, y), **offset, va="top" if below else "bottom", fontsize=6, color=colour)
        axes.set(xlabel=self.x, ylabel=self.label)
        if any(str(place) != x for x, place in places.items()):
            slanted = sum(map(len, places)) > 30
            axes.set_xticks(range(len(places)), list(places), rotation=45 * slanted, ha="right" if slanted else "center")
        else:
            axes.locator_params(axis="x", integer=True)
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        points = [(line, x, values) for line in self.data(evidence) for x, values in line.means.items()]
        rows = [[line.view.name, line.label, x, *base.csv_spread(values)] for line, x, values in points]
        return [["experiment", "series", self.x, *base.SPREAD_COLUMNS], *rows]

    def explanations(self, evidence: PaperData) -> list[str]:
        lines, results = self.data(evidence), [view.results for view in self.available(evidence)]
        sentences = [base.seeds_sentence(results, "band"), *base.emphasis_sentence(evidence, results, "Heavier")]
        sentences += [sentence for result in results for sentence in base.diverged_sentences(result)]
        cells = [cell for line in lines for cell in line.cells]
        if missing := cells.count(""):
            sentences.append(f"Left out: {missing} of {len(cells)} rows, which have no {self.y}.")
        for line in lines:  # such as those of a network's dead units
            numbers = [abs(float(cell)) for cell in line.cells if cell != ""]
            zeros = sum(number < ROUNDING for number in numbers)
            if 2 * zeros > len(numbers):
                sentences.append(f"{line.view.name}, {line.label}: {zeros} of {len(numbers)} numbers are 0.")
        return [*sentences, base.data_sentence(results)]


def _places(values: list[str]) -> dict[str, float]:
    """Return x -> its place on the axis: whole numbers at their value, words side by side."""
    distinct = list(dict.fromkeys(values))
    if all(x.isdecimal() for x in distinct):
        return {x: int(x) for x in distinct}
    return {x: place for place, x in enumerate(distinct)}


def _draw_line(axes: Any, xs: list[float], seeds: list[list[float]], experiment: int, style: SeriesStyle, label: str) -> None:
    """Draw a line; `experiment`, the experiment's index, changes marker and dashes."""
    means = list(map(fmean, seeds))
    marker = MARKERS[(MARKERS.index(style.marker) + 5 * experiment) % len(MARKERS)] if experiment else style.marker
    markers = style.marker_options | {"marker": marker, "markevery": max(1, len(xs) // 8)}
    [line] = axes.plot(xs, means, linewidth=style.line_width, color=style.colour, label=label, **markers)
    line.set_dashes(DASHES[experiment % len(DASHES)] or (None, None))
    if any(len(values) > 1 for values in seeds):
        bounds = (-math.inf if min(map(min, seeds)) < -ROUNDING else 0.0, math.inf)
        draw_band(axes, xs, [estimate(values) for values in seeds], style.colour, bounds)
