"""Images of a matrix of a study, e.g. layer by neuron: a cell's colour is its category, such as the class that it responds to
most. Rows may have different lengths."""

from collections import defaultdict
from typing import Any, ClassVar

from fedrepro.report.figures import _study, base
from fedrepro.report.figures._style import category_colours, sort_categories
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData


class Figure(_study.StudyFigure):
    """`row`, `column`, `value`: columns of the study. `none`: the value that stands for none."""

    row: str
    column: str
    value: str
    none: str | int = ""
    alt_text: ClassVar = "a matrix as an image, coloured by category"
    height: ClassVar = 2.6

    def columns(self) -> list[str]:
        return [self.row, self.column, self.value]

    def rows(self, results: Results, label: str) -> list[_study.StudyRow]:
        """Where there is none, the value is empty."""
        return [row | {self.value: ""} if row[self.value] == str(self.none) else row for row in super().rows(results, label)]

    def _figure_panel(self, label: str, *given: Any) -> base.FigurePanel:
        return super()._figure_panel(", ".join(filter(None, [self.name, label])), *given)

    def draw_panel(self, axes: Any, rows: list[_study.StudyRow], evidence: PaperData, last: bool) -> None:
        lines = list(dict.fromkeys(row[self.row] for row in rows))
        places = {value: place for place, value in enumerate(sort_categories({row[self.column] for row in rows}))}
        self._categories(axes, rows, lines, places, evidence)
        axes.set(xlabel=self.column, ylabel=self.row)
        axes.set_yticks(range(len(lines)), lines)
        axes.locator_params(axis="x", integer=True)

    def _categories(self, axes: Any, rows: list[_study.StudyRow], lines: list[str], places: dict, evidence: PaperData) -> None:
        from matplotlib.colors import to_rgb

        colours = {value: to_rgb(colour) for value, colour in category_colours(self.categories(evidence, self.value)).items()}
        image = [[(1.0, 1.0, 1.0)] * len(places) for _ in lines]
        for row in rows:
            if row[self.value] != "":
                image[lines.index(row[self.row])][places[row[self.column]]] = colours[row[self.value]]
        axes.imshow(image, aspect="auto", interpolation="nearest")
        for value, colour in colours.items():
            axes.scatter([], [], marker="s", s=16, color=colour, label=f"{self.value} {value}")

    def explanations(self, evidence: PaperData) -> list[str]:
        without = f", or one without {self.value}" if self.none != "" else ""
        return [f"White: no {self.column} of that number{without}.", *self._agreeing(evidence), *super().explanations(evidence)]

    def _agreeing(self, evidence: PaperData) -> list[str]:
        """A sentence for each series: in each panel the share of columns that agree, of those with a value in all rows."""
        results, told = self.first_results(evidence), []
        for label in self.labels_with_rows(results):
            panels: dict[str, list[_study.StudyRow]] = defaultdict(list)
            for row in self.rows(results, label):
                panels[row[self.by]].append(row)
            shares = [f"{value} {_shared(*agreement(panels[value], self))}" for value in sort_categories(set(panels))]
            full = f"of the {self.column}s with a {self.value} in all {self.row}s, so many have the same one"
            told.append(f"{label}: {full}: {', '.join(shares)}.")
        return told


def agreement(rows: list[_study.StudyRow], figure: Figure) -> tuple[int, int, int]:
    """How many columns have one value in all rows, how many have a value in all, and how many columns there are."""
    columns: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        columns[row[figure.column]].append(row[figure.value])
    full = [values for values in columns.values() if "" not in values]
    return sum(len(set(values)) == 1 for values in full), len(full), len(columns)


def _shared(same: int, full: int, every: int) -> str:
    share = f"{100 * same / full:.0f} %; " if full else ""
    return f"{same} of {full} ({share}{every} in all)"
