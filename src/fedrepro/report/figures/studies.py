"""Figures drawn from the rows of a study: pictures of single runs, and lines over one of its
columns."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveFloat

from fedrepro.core.errors import UserError
from fedrepro.core.metrics import NO_CLASS
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
MAPS, PLANE = "preferences", "tsne"  # studies of pictures
COLUMNS = {  # that of the panels first
    MAPS: ("block", "client", "unit", "class"),
    PLANE: ("round", "x", "y", "class", "client", "accuracy"),
}
Row = dict[str, str]  # column -> value
Class = tuple[str, Any]  # name and colour


class Pictures(base.Figure):
    """Pictures of the first seed of the series in `series` (empty: all). `of` names the study.
    `preferences`: the class that each unit of a network answers to most, after the last round, as
    an image of clients by units for each block; `tsne`: activations as points in a plane, coloured
    by class, for each round. `only`: some of the blocks or rounds."""

    experiment: str
    of: Literal["preferences", "tsne"]
    series: tuple[str, ...] = ()
    only: tuple[str | int, ...] = ()

    @property
    def alt_text(self) -> str:
        return (
            "a matrix as an image, coloured by category"
            if self.of == MAPS
            else "points in a plane, coloured by category"
        )

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(self.experiment, self.of)]

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, self.of, self.series)

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        return [
            ExperimentView(
                self.experiment, DisplayOptions(), evidence.study(self.experiment, self.of)
            )
        ]

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        return view.results.series_missing_reason(self.series)

    @base.computed_once
    def data(self, evidence: PaperData) -> dict[str, list[Row]]:
        """Return the rows that are shown of each series that has any. The class that means none is
        empty."""
        results, only = self.first_results(evidence), [str(value) for value in self.only]
        shown: dict[str, list[Row]] = {}
        for label in self.series or results.labels:
            every = results.rows_without_diverged(label)
            rows = [
                row
                for row in every
                if row["seed"] == every[0]["seed"]
                and (not only or row[COLUMNS[self.of][0]] in only)
            ]
            if self.of == MAPS:
                last = max((int(row["round"]) for row in rows), default=0)
                rows = [
                    row | {"class": row["class"].replace(str(NO_CLASS), "")}
                    for row in rows
                    if int(row["round"]) == last
                ]
            if rows:
                shown[label] = rows
        return shown

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        """Return a row of panels for each series, with a panel for each block or round."""
        reason = self.missing_reason(evidence)
        data = {} if reason else self.data(evidence)
        if not data:
            return [
                [
                    base.FigurePanel(
                        "", lambda axes: None, reason or MissingReason(MissingKind.NO_VALUES)
                    )
                ]
            ]
        classes, draw = self._classes(evidence), _draw_map if self.of == MAPS else _draw_plane
        letters = dict(zip(_values(data, "client"), itertools.cycle(LETTERS)))
        grid = []
        for label, every in data.items():
            row = []
            for value in _values(data, COLUMNS[self.of][0]):
                rows = [one for one in every if one[COLUMNS[self.of][0]] == value]
                names = [
                    self.name,
                    label if len(data) > 1 else "",
                    f"{COLUMNS[self.of][0]} {value}",
                ]
                share = (
                    f": accuracy {100 * float(rows[0]['accuracy']):.1f} %"
                    if self.of == PLANE and rows
                    else ""
                )
                title = ", ".join(filter(None, names)) + share
                row.append(
                    base.FigurePanel(
                        title, partial(draw, rows=rows, classes=classes, letters=letters)
                    )
                )
            grid.append(row)
        return grid

    def _classes(self, evidence: PaperData) -> dict[str, Class]:
        """Return each class that occurs -> its name in the data set and its colour."""
        values = _values(self.data(evidence), "class")
        configs = [
            series.get("config", {})
            for series in self.first_results(evidence).note["series"].values()
        ]
        choice = configs[0].get("dataset") if configs else None
        names = dict(enumerate(datasets.classes(choice) if choice else ()))
        colours = category_colours(values)
        return {
            value: (names.get(int(value), f"class {value}"), colours[value]) for value in values
        }

    def csv_rows(self, evidence: PaperData) -> list[list]:
        columns = COLUMNS[self.of]
        rows = [(label, row) for label, own in self.data(evidence).items() for row in own]
        return [
            ["series", "seed", *columns],
            *([label, row["seed"], *(row[name] for name in columns)] for label, row in rows),
        ]

    def explanations(self, evidence: PaperData) -> list[str]:
        data, results = self.data(evidence), self.first_results(evidence)
        seeds = {label: rows[0]["seed"] for label, rows in data.items()}
        rounds = {row["round"] for rows in data.values() for row in rows}
        seed = "; ".join(f"{label}: seed {seed}" for label, seed in seeds.items())
        if len(set(seeds.values())) == 1:
            seed = f"Seed {next(iter(seeds.values()))}"
        round = f", round {rounds.pop()}" if len(rounds) == 1 else ""
        sentences = [f"{seed}{round}."] if seeds else []
        own = _map_sentences(data) if self.of == MAPS else [_letters_sentence(data)]
        return [*own, *sentences, *base.diverged_sentences(results), base.data_sentence([results])]


def _values(data: Mapping[str, list[Row]], column: str) -> list[str]:
    """Return all values of a column, which every panel shows in the same way."""
    return sort_categories({row[column] for rows in data.values() for row in rows} - {""})


def _draw_map(
    axes: Any, rows: list[Row], classes: Mapping[str, Class], letters: Mapping[str, str]
) -> None:
    from matplotlib.colors import to_rgb

    lines = list(dict.fromkeys(row["client"] for row in rows))
    places = {
        value: place for place, value in enumerate(sort_categories({row["unit"] for row in rows}))
    }
    image = [[(1.0, 1.0, 1.0)] * len(places) for _ in lines]
    for row in rows:
        if row["class"] != "":
            image[lines.index(row["client"])][places[row["unit"]]] = to_rgb(
                classes[row["class"]][1]
            )
    axes.imshow(image, aspect="auto", interpolation="nearest")
    if any(row["class"] == "" for row in rows):
        axes.scatter(
            [],
            [],
            marker="s",
            s=16,
            color="white",
            edgecolor="0.6",
            linewidths=0.5,
            label="no class",
        )
    for name, colour in classes.values():
        axes.scatter([], [], marker="s", s=16, color=to_rgb(colour), label=name)
    axes.set(xlabel="unit", ylabel="client")
    axes.set_yticks(range(len(lines)), lines)
    axes.locator_params(axis="x", integer=True)


def _draw_plane(
    axes: Any, rows: list[Row], classes: Mapping[str, Class], letters: Mapping[str, str]
) -> None:
    for value, (name, colour) in classes.items():
        axes.scatter([], [], s=12, color=colour, label=name)
        for client, letter in letters.items():
            points = [row for row in rows if row["class"] == value and row["client"] == client]
            x, y = ([float(row[column]) for row in points] for column in ("x", "y"))
            axes.scatter(x, y, s=16, color=colour, marker=rf"$\mathrm{{{letter}}}$", linewidths=0)
    names = [f"{letter} = client {client}" for client, letter in letters.items()]
    label = f"{names[0]} ... {names[-1]}"
    axes.scatter(
        [], [], s=16, color="0.3", marker=rf"$\mathrm{{{LETTERS[0]}}}$", linewidths=0, label=label
    )
    axes.set(xlabel="", ylabel="", xticks=[], yticks=[])


def _letters_sentence(data: Mapping[str, list[Row]]) -> str:
    letters = zip(itertools.cycle(LETTERS), _values(data, "client"))
    return f"Letters: client ({', '.join(map(' '.join, letters))})."


def _map_sentences(data: Mapping[str, list[Row]]) -> list[str]:
    """Return sentences on the colours, and for each series and block on how many units have the
    same class at all clients."""
    sentences = ["White: no unit of that number, or no class."]
    for label, rows in data.items():
        panels = grouped((row["block"], row) for row in rows)
        shares = [
            f"{value} {_format_agreement(*agreement(panels[value]))}"
            for value in sort_categories({*panels})
        ]
        same = "units with the same class in all clients, of those with a class in all"
        sentences.append(f"{label}: {same}: {', '.join(shares)}.")
    return sentences


def agreement(rows: list[Row]) -> tuple[int, int, int]:
    """Return the numbers of units with one class at all clients, of units with a class at all
    clients, and of all units."""
    units = grouped((row["unit"], row["class"]) for row in rows)
    full = [values for values in units.values() if "" not in values]
    return sum(len(set(values)) == 1 for values in full), len(full), len(units)


def _format_agreement(same: int, full: int, total: int) -> str:
    share = f"{100 * same / full:.0f} %; " if full else ""
    return f"{same} of {full} ({share}{total} in total)"


@dataclass(frozen=True)
class StudyLine:
    """A line: the numbers of its rows, and x -> the mean of each seed's."""

    view: ExperimentView
    label: str
    cells: list[str]
    means: Mapping[str, list[float]]


class Lines(base.Figure):
    """Lines over a column of a study, such as the layer or the round, one for each series of each
    experiment: means over seeds with their 95 % intervals as bands, of the column `y`, averaged
    over the rows of a run. `names`: experiment -> its name in the legend. Words on the horizontal
    axis are in the order of the rows."""

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
        return [results_name(name, self.of) for name in self.names] + [*self.names] * (
            self.of == ACTIVATIONS
        )

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        named = {key: DisplayOptions(name=name) for key, name in self.names.items()}
        return [
            ExperimentView(key, shown, evidence.study(key, self.of), evidence.results)
            for key, shown in named.items()
        ]

    @base.computed_once
    def data(self, evidence: PaperData) -> list[StudyLine]:
        """Return the lines of all experiments that have results."""
        lines: list[StudyLine] = []
        for view in self.available(evidence):
            for label in view.results.labels:
                rows = view.results.rows_without_diverged(label)
                if absent := [
                    column for column in (self.x, self.y) if rows and column not in rows[0]
                ]:
                    raise UserError(
                        f"{self.title}: no column '{absent[0]}' in the study: choose from "
                        f"{', '.join(rows[0])}"
                    )
                numbers = grouped((row[self.x], row) for row in rows if row[self.y] != "")
                means = {x: self._means(own) for x, own in numbers.items()}
                lines += (
                    [StudyLine(view, label, [row[self.y] for row in rows], means)] if rows else []
                )
        return lines

    def _means(self, rows: list[Row]) -> list[float]:
        return [
            fmean(values)
            for values in grouped(
                (row["seed"], self.factor * float(row[self.y])) for row in rows
            ).values()
        ]

    def draw(self, axes: Any, evidence: PaperData) -> None:
        lines, keys = self.data(evidence), [view.key for view in self.available(evidence)]
        places = _places([x for line in lines for x in line.means])
        styles = series_styles(evidence, [view.results for view in self.available(evidence)])
        notes: list[tuple[float, float, str, str]] = []
        for line in lines:
            title = f"{line.view.name}, {line.label}" if len(keys) > 1 else line.label
            style, xs, seeds = (
                styles[line.label],
                [places[x] for x in line.means],
                list(line.means.values()),
            )
            _draw_line(axes, xs, seeds, keys.index(line.view.key), style, title)
            if self.of == ACTIVATIONS and (how := failure(line.view, line.label, line.view.key)):
                notes.append((xs[-1], fmean(seeds[-1]), how, style.colour))
        limit_to_lines(axes)
        for x, y, text, colour in notes:
            below = len(notes) > 1 and y == min(note[1] for note in notes)
            offset = {
                "xytext": (0, -4 if below else 4),
                "textcoords": "offset points",
                "ha": "right",
            }
            axes.annotate(
                text, (x, y), **offset, va="top" if below else "bottom", fontsize=6, color=colour
            )
        axes.set(xlabel=self.x, ylabel=self.label)
        if any(str(place) != x for x, place in places.items()):
            slanted = sum(map(len, places)) > 30
            axes.set_xticks(
                range(len(places)),
                list(places),
                rotation=45 * slanted,
                ha="right" if slanted else "center",
            )
        else:
            axes.locator_params(axis="x", integer=True)
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        points = [
            (line, x, values) for line in self.data(evidence) for x, values in line.means.items()
        ]
        rows = [
            [line.view.name, line.label, x, *base.csv_spread(values)] for line, x, values in points
        ]
        return [["experiment", "series", self.x, *base.SPREAD_COLUMNS], *rows]

    def explanations(self, evidence: PaperData) -> list[str]:
        lines, results = self.data(evidence), [view.results for view in self.available(evidence)]
        sentences = [
            base.seeds_sentence(results, "band"),
            *base.emphasis_sentence(evidence, results, "Heavier"),
        ]
        sentences += [
            sentence for result in results for sentence in base.diverged_sentences(result)
        ]
        cells = [cell for line in lines for cell in line.cells]
        if missing := cells.count(""):
            sentences.append(f"Left out: {missing} of {len(cells)} rows, which have no {self.y}.")
        for line in lines:  # such as those of a network's dead units
            numbers = [abs(float(cell)) for cell in line.cells if cell != ""]
            zeros = sum(number < ROUNDING for number in numbers)
            if 2 * zeros > len(numbers):
                sentences.append(
                    f"{line.view.name}, {line.label}: {zeros} of {len(numbers)} numbers are 0."
                )
        return [*sentences, base.data_sentence(results)]


def _places(values: list[str]) -> dict[str, float]:
    """Return x -> its place on the axis: whole numbers at their value, words side by side."""
    distinct = list(dict.fromkeys(values))
    if all(x.isdecimal() for x in distinct):
        return {x: int(x) for x in distinct}
    return {x: place for place, x in enumerate(distinct)}


def _draw_line(
    axes: Any,
    xs: list[float],
    seeds: list[list[float]],
    experiment: int,
    style: SeriesStyle,
    label: str,
) -> None:
    """Draw a line; `experiment`, the experiment's index, changes marker and dashes."""
    means = list(map(fmean, seeds))
    marker = (
        MARKERS[(MARKERS.index(style.marker) + 5 * experiment) % len(MARKERS)]
        if experiment
        else style.marker
    )
    markers = style.marker_options | {"marker": marker, "markevery": max(1, len(xs) // 8)}
    [line] = axes.plot(
        xs, means, linewidth=style.line_width, color=style.colour, label=label, **markers
    )
    line.set_dashes(DASHES[experiment % len(DASHES)] or (None, None))
    if any(len(values) > 1 for values in seeds):
        bounds = (-math.inf if min(map(min, seeds)) < -ROUNDING else 0.0, math.inf)
        draw_band(axes, xs, [estimate(values) for values in seeds], style.colour, bounds)
