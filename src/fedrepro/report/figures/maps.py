"""Images of a matrix of a study, such as layer by neuron, in which a cell's colour shows its category."""

from collections import defaultdict
from typing import Any, ClassVar

from fedrepro.report.figures import _study, base
from fedrepro.report.figures._style import category_colours, sort_categories
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData


class Figure(_study.StudyFigure):
    """Images of a study. `row`, `column`, `value`: columns of the study; rows may differ in length. `none`: the value that
    means no category."""

    row: str
    column: str
    value: str
    none: str | int = ""
    alt_text: ClassVar = "a matrix as an image, coloured by category"
    height: ClassVar = 2.6

    def columns(self) -> list[str]:
        return [self.row, self.column, self.value]

    def rows(self, results: Results, label: str) -> list[_study.StudyRow]:
        """Return the rows of a series, with an empty value for no category."""
        return [row | {self.value: ""} if row[self.value] == str(self.none) else row for row in super().rows(results, label)]

    def _figure_panel(self, label: str, *arguments: Any) -> base.FigurePanel:
        return super()._figure_panel(", ".join(filter(None, [self.name, label])), *arguments)

    def draw_panel(self, axes: Any, rows: list[_study.StudyRow], evidence: PaperData, last: bool) -> None:
        lines = list(dict.fromkeys(row[self.row] for row in rows))
        places = {value: place for place, value in enumerate(sort_categories({row[self.column] for row in rows}))}
        self._draw_image(axes, rows, lines, places, evidence)
        axes.set(xlabel=self.column, ylabel=self.row)
        axes.set_yticks(range(len(lines)), lines)
        axes.locator_params(axis="x", integer=True)

    def _draw_image(
        self, axes: Any, rows: list[_study.StudyRow], lines: list[str], places: dict[str, int], evidence: PaperData
    ) -> None:
        from matplotlib.colors import to_rgb

        names = category_colours(self.categories(evidence, self.value))
        colours = {value: to_rgb(name) for value, name in names.items()}
        image = [[(1.0, 1.0, 1.0)] * len(places) for _ in lines]
        for row in rows:
            if row[self.value] != "":
                image[lines.index(row[self.row])][places[row[self.column]]] = colours[row[self.value]]
        axes.imshow(image, aspect="auto", interpolation="nearest")
        if any(row[self.value] == "" for row in rows):
            axes.scatter([], [], marker="s", s=16, color="white", edgecolor="0.6", linewidths=0.5, label=f"no {self.value}")
        for value, colour in colours.items():
            axes.scatter([], [], marker="s", s=16, color=colour, label=self.category_name(evidence, self.value, value))

    def explanations(self, evidence: PaperData) -> list[str]:
        no_value = f", or no {self.value}" if self.none != "" else ""
        white = f"White: no {self.column} of that number{no_value}."
        return [white, *self._agreements(evidence), *super().explanations(evidence)]

    def _agreements(self, evidence: PaperData) -> list[str]:
        """Return a sentence for each series on how many columns have the same value in all rows, panel by panel."""
        results, sentences = self.first_results(evidence), []
        for label in self.labels_with_rows(results):
            panels: dict[str, list[_study.StudyRow]] = defaultdict(list)
            for row in self.rows(results, label):
                panels[row[self.by]].append(row)
            shares = [f"{value} {_format_agreement(*agreement(panels[value], self))}" for value in sort_categories(set(panels))]
            same = f"{self.column}s with the same {self.value} in all {self.row}s, of those with a {self.value} in all"
            sentences.append(f"{label}: {same}: {', '.join(shares)}.")
        return sentences


def agreement(rows: list[_study.StudyRow], figure: Figure) -> tuple[int, int, int]:
    """Return the numbers of columns with one value in all rows, of columns with a value in all rows, and of all columns."""
    columns: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        columns[row[figure.column]].append(row[figure.value])
    full = [values for values in columns.values() if "" not in values]
    return sum(len(set(values)) == 1 for values in full), len(full), len(columns)


def _format_agreement(same: int, full: int, total: int) -> str:
    share = f"{100 * same / full:.0f} %; " if full else ""
    return f"{same} of {full} ({share}{total} in total)"
