"""Lines over a column of a study, such as the layer or the round, one for each series of each experiment.

y is another column, averaged over the rows of a run; lines are means over seeds with their 95 % intervals as bands.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat

from fedrepro.report.figures import _study, base
from fedrepro.report.figures._style import draw_band, draw_grid_lines, limit_to_lines, series_styles
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import DASHES, MARKERS, SeriesStyle
from fedrepro.report.quantities import studies
from fedrepro.report.statistics import ROUNDING, estimate
from fedrepro.runs.reasons import MissingReason


class Figure(base.Figure):
    """Lines of a study. `names`: experiment -> its name in the legend. Words on the horizontal axis are in the order of the
    rows."""

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

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(self.names)

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(name, self.of) for name in self.names] + [*self.names] * (self.of == studies.ACTIVATIONS)

    def _available_results(self, evidence: PaperData) -> dict[str, Results]:
        results = {name: evidence.study(name, self.of) for name in self.names}
        return {name: result for name, result in results.items() if not result.missing_reason}

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        return None if self._available_results(evidence) else evidence.study(next(iter(self.names)), self.of).missing_reason

    def first_results(self, evidence: PaperData) -> Results:
        return next(iter(self._available_results(evidence).values()))

    def draw(self, axes: Any, evidence: PaperData) -> None:
        results = self._available_results(evidence)
        lines: dict[tuple[str, str], dict[str, list[float]]] = {}
        for name, result in results.items():
            lines |= {(name, label): self.seed_means(result, label) for label in self.labels_with_rows(result)}
        places = _places([x for values in lines.values() for x in values])
        styles = series_styles(evidence, list(results.values()))
        notes: list[tuple[float, float, str, str]] = []
        for (name, label), values in lines.items():
            title = f"{self.names[name]}, {label}" if len(results) > 1 else label
            index = list(results).index(name)
            xs, means = [places[x] for x in values], list(values.values())
            _draw_line(axes, xs, means, index, styles[label], title)
            if failure := self._failure(evidence, name, label):
                notes.append((xs[-1], statistics.fmean(means[-1]), failure, styles[label].colour))
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

    def _failure(self, evidence: PaperData, name: str, label: str) -> str:
        """Return how the networks of a series failed, if the line is of their activations; empty otherwise."""
        if self.of != studies.ACTIVATIONS:
            return ""
        study, learned = evidence.study(name, self.of), evidence.results[name]
        return studies.failure(ExperimentView(name, DisplayOptions(), study, {name: learned}), label, name)

    def labels_with_rows(self, results: Results) -> list[str]:
        return [label for label in results.labels if results.rows_without_diverged(label)]

    def seed_means(self, results: Results, label: str) -> dict[str, list[float]]:
        """Return x -> the mean of each seed's rows that have a number."""
        numbers: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in results.rows_without_diverged(label):
            if missing := [column for column in (self.x, self.y) if column not in row]:
                raise _study.missing_column_error(self.title, missing[0], row)
            if row[self.y] != "":
                numbers[row[self.x]][row["seed"]].append(self.factor * float(row[self.y]))
        return {x: [statistics.fmean(values) for values in seeds.values()] for x, seeds in numbers.items()}

    def csv_rows(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["experiment", "series", self.x, *base.SPREAD_COLUMNS]]
        for name, results in self._available_results(evidence).items():
            for label in self.labels_with_rows(results):
                means = self.seed_means(results, label)
                rows += [[self.names[name], label, x, *base.csv_spread(values)] for x, values in means.items()]
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        results = list(self._available_results(evidence).values())
        sentences = [base.seeds_sentence(results, "band"), *base.emphasis_sentence(evidence, results, "Heavier")]
        for result in results:
            sentences += base.diverged_sentences(result)
        return [*sentences, *self._missing_values(evidence), *self._zeros(evidence), base.data_sentence(results)]

    def _missing_values(self, evidence: PaperData) -> list[str]:
        """Return a sentence on the number of rows without a number."""
        values: list[str] = []
        for results in self._available_results(evidence).values():
            for label in self.labels_with_rows(results):
                values += [row[self.y] for row in results.rows_without_diverged(label)]
        missing = values.count("")
        return [f"Left out: {missing} of {len(values)} rows, which have no {self.y}."] if missing else []

    def _zeros(self, evidence: PaperData) -> list[str]:
        """Return a sentence for each line most of whose numbers are 0, such as those of a network's dead units."""
        sentences = []
        for name, results in self._available_results(evidence).items():
            for label in self.labels_with_rows(results):
                values = [abs(float(row[self.y])) for row in results.rows_without_diverged(label) if row[self.y] != ""]
                zeros = sum(value < ROUNDING for value in values)
                if 2 * zeros > len(values):
                    sentences.append(f"{self.names[name]}, {label}: {zeros} of {len(values)} numbers are 0.")
        return sentences


def _places(values: list[str]) -> dict[str, float]:
    """Return x -> its place on the axis: whole numbers at their value, words side by side."""
    distinct = list(dict.fromkeys(values))
    if all(x.isdecimal() for x in distinct):
        return {x: int(x) for x in distinct}
    return {x: place for place, x in enumerate(distinct)}


def _draw_line(axes: Any, xs: list[float], seeds: list[list[float]], experiment: int, style: SeriesStyle, label: str) -> None:
    """Draw a line; `experiment`, the experiment's index, changes marker and dashes."""
    means = [statistics.fmean(values) for values in seeds]
    marker = style.marker
    if experiment > 0:
        marker = MARKERS[(MARKERS.index(style.marker) + 5 * experiment) % len(MARKERS)]
    markers = style.marker_options | {"marker": marker, "markevery": max(1, len(xs) // 8)}
    [line] = axes.plot(xs, means, linewidth=style.line_width, color=style.colour, label=label, **markers)
    line.set_dashes(DASHES[experiment % len(DASHES)] or (None, None))
    if any(len(values) > 1 for values in seeds):
        bounds = (-math.inf if min(map(min, seeds)) < -ROUNDING else 0.0, math.inf)
        draw_band(axes, xs, [estimate(values) for values in seeds], style.colour, bounds)
