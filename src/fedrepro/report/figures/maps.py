"""Images of a matrix of a study, e.g. layer by neuron: a cell's colour is its category, such as the class that it responds to
most, or its value. Rows may have different lengths."""

from typing import Any, ClassVar

from fedrepro.report.evidence import Evidence
from fedrepro.report.figures import _study
from fedrepro.report.figures._style import ordered, palette


class Figure(_study.OfStudy):
    """`row`, `column`, `value`: columns of the study. `label`: of the colour bar, where values are numbers and no
    categories."""

    row: str
    column: str
    value: str
    label: str | None = None
    shows: ClassVar = "a matrix as an image, coloured by category or value"
    height: ClassVar = 2.6

    def columns(self) -> list[str]:
        return [self.row, self.column, self.value]

    def panel(self, axes: Any, rows: list[_study.Row], evidence: Evidence, last: bool) -> None:
        lines = list(dict.fromkeys(row[self.row] for row in rows))
        places = {value: place for place, value in enumerate(ordered({row[self.column] for row in rows}))}
        if self.label:
            drawn = self._numbers(axes, rows, lines, places, evidence)
            if last:
                axes.figure.colorbar(drawn, ax=axes, label=self.label)
        else:
            self._categories(axes, rows, lines, places, evidence)
        axes.set(xlabel=self.column, ylabel=self.row)
        axes.set_yticks(range(len(lines)), lines)

    def _categories(self, axes: Any, rows: list[_study.Row], lines: list[str], places: dict, evidence: Evidence) -> None:
        from matplotlib.colors import to_rgb

        colours = {value: to_rgb(colour) for value, colour in palette(self.categories(evidence, self.value)).items()}
        image = [[(1.0, 1.0, 1.0)] * len(places) for _ in lines]
        for row in rows:
            if row[self.value] != "":
                image[lines.index(row[self.row])][places[row[self.column]]] = colours[row[self.value]]
        axes.imshow(image, aspect="auto", interpolation="nearest")
        for value, colour in colours.items():
            axes.scatter([], [], marker="s", s=16, color=colour, label=f"{self.value} {value}")

    def _numbers(self, axes: Any, rows: list[_study.Row], lines: list[str], places: dict, evidence: Evidence) -> Any:
        image = [[float("nan")] * len(places) for _ in lines]
        for row in rows:
            if row[self.value] != "":
                image[lines.index(row[self.row])][places[row[self.column]]] = float(row[self.value])
        every = [float(value) for value in self.categories(evidence, self.value)]
        look = {"vmin": min(every), "vmax": max(every), "cmap": "viridis"}  # the same colour means the same in every panel
        return axes.imshow(image, aspect="auto", interpolation="nearest", **look)

    def told(self, evidence: Evidence) -> list[str]:
        return [f"White: no {self.column} of that number.", *super().told(evidence)]
