"""Lines over a column of a study, such as the network's layers or the round: y is another column, in each run the mean over its
rows; mean over seeds with a band of one standard deviation, one line for each series of each experiment."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from fedrepro.report.figures import _study, base
from fedrepro.report.figures._style import draw_grid_lines, series_styles
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import DASHES, MARKERS, SeriesStyle
from fedrepro.report.statistics import ROUNDING
from fedrepro.runs.reasons import MissingReason


class Figure(base.Figure):
    """`names`: experiments, with what they are called in the legend. Words on the x axis come in the order of the rows."""

    names: dict[str, str] = Field(min_length=1)
    of: str  # the study
    x: str
    y: str
    label: str  # of the vertical axis, with its unit
    alt_text: ClassVar = "a number over layers or rounds, one line per method"

    def check(self, checker: ReferenceChecker) -> None:
        for name in self.names:
            checker.at("names").check_study(name, self.of)

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(self.names)

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(name, self.of) for name in self.names]

    def _found(self, evidence: PaperData) -> dict[str, Results]:
        found = {name: evidence.study(name, self.of) for name in self.names}
        return {name: results for name, results in found.items() if not results.missing_reason}

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        return None if self._found(evidence) else evidence.study(next(iter(self.names)), self.of).missing_reason

    def first_results(self, evidence: PaperData) -> Results:
        return next(iter(self._found(evidence).values()))

    def draw(self, axes: Any, evidence: PaperData) -> None:
        found = self._found(evidence)
        lines = {
            (name, label): self.seed_means(results, label) for name, results in found.items() for label in self.labels(results)
        }
        places = _places([x for values in lines.values() for x in values])
        looks = series_styles(evidence, list(found.values()))
        for (name, label), values in lines.items():
            called = f"{self.names[name]}, {label}" if len(found) > 1 else label
            _line(axes, [places[x] for x in values], list(values.values()), list(found).index(name), looks[label], called)
        axes.set(xlabel=self.x, ylabel=self.label)
        if any(str(place) != x for x, place in places.items()):
            slanted = sum(map(len, places)) > 30
            axes.set_xticks(range(len(places)), list(places), rotation=45 * slanted, ha="right" if slanted else "center")
        else:
            axes.locator_params(axis="x", integer=True)
        draw_grid_lines(axes)

    def labels(self, results: Results) -> list[str]:
        return [label for label in results.labels if results.finished_rows(label)]

    def seed_means(self, results: Results, label: str) -> dict[str, list[float]]:
        """x -> the mean of each seed's rows, of those that have a number."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in results.finished_rows(label):
            if missing := [column for column in (self.x, self.y) if column not in row]:
                raise _study.missing_column_error(self.title, missing[0], row)
            if row[self.y] != "":
                found[row[self.x]][row["seed"]].append(float(row[self.y]))
        return {x: [statistics.fmean(values) for values in seeds.values()] for x, seeds in found.items()}

    def csv_rows(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["experiment", "series", self.x, "mean", "sd", "seeds"]]
        for name, results in self._found(evidence).items():
            for label in self.labels(results):
                found = self.seed_means(results, label)
                rows += [[self.names[name], label, x, *base.csv_spread(values)] for x, values in found.items()]
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        results = list(self._found(evidence).values())
        return [
            base.seeds_sentence(results, "band"),
            *base.emphasis_sentence(evidence, results, "Heavier"),
            *(text for one in results for text in base.diverged_sentences(one)),
            *self._left_out(evidence),
            *self._zero(evidence),
            base.data_sentence(results),
        ]

    def _left_out(self, evidence: PaperData) -> list[str]:
        """How many rows have no number."""
        rows = [row for one in self._found(evidence).values() for label in self.labels(one) for row in one.finished_rows(label)]
        without = sum(row[self.y] == "" for row in rows)
        return [f"Left out, since they have no {self.y}: {without} of {len(rows)} rows."] if without else []

    def _zero(self, evidence: PaperData) -> list[str]:
        """Which lines hold numbers most of which are 0, as those of a dead network's units are."""
        found = []
        for name, results in self._found(evidence).items():
            for label in self.labels(results):
                values = [abs(float(row[self.y])) for row in results.finished_rows(label) if row[self.y] != ""]
                if 2 * (zero := sum(value < ROUNDING for value in values)) > len(values):
                    found.append(f"{self.names[name]}, {label}: {zero} of {len(values)} numbers are 0.")
        return found


def _places(values: list[str]) -> dict[str, float]:
    """x -> where it is drawn: a whole number at its value, words side by side."""
    distinct = list(dict.fromkeys(values))
    if all(x.isdecimal() for x in distinct):
        return {x: int(x) for x in distinct}
    return {x: place for place, x in enumerate(distinct)}


def _line(axes: Any, xs: list[float], seeds: list[list[float]], place: int, look: SeriesStyle, label: str) -> None:
    means = [statistics.fmean(values) for values in seeds]
    mark = look.marker if place == 0 else MARKERS[(MARKERS.index(look.marker) + 5 * place) % len(MARKERS)]
    marks = look.marker_options | {"marker": mark, "markevery": max(1, len(xs) // 8)}
    [line] = axes.plot(xs, means, linewidth=look.line_width, color=look.colour, label=label, **marks)
    line.set_dashes(DASHES[place % len(DASHES)] or (None, None))
    if any(len(values) > 1 for values in seeds):
        wide = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in seeds]
        band = ([mean + sign * by for mean, by in zip(means, wide, strict=True)] for sign in (-1, 1))
        axes.fill_between(xs, *band, color=look.colour, alpha=0.15, linewidth=0)
