"""Points of a study, e.g. features in two dimensions: a colour for each value of one column, a letter for each of another, and
a panel for each value of a third, such as the round."""

from dataclasses import replace
from typing import Any, ClassVar

from fedrepro.report.figures import _study, base
from fedrepro.report.figures._style import category_colours
from fedrepro.report.inputs.panel import PaperData

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Figure(_study.StudyFigure):
    """The axes' numbers mean nothing. `note`: a column of shares, 0..1, each of whose panels has one value,
    told in its title."""

    x: str
    y: str
    colour: str
    letter: str
    note: str | None = None
    alt_text: ClassVar = "points in a plane, coloured by category"
    height: ClassVar = 3.0

    def columns(self) -> list[str]:
        return [self.x, self.y, self.colour, self.letter, *filter(None, [self.note])]

    def _figure_panel(
        self, label: str, rows: list[_study.StudyRow], value: str, last: bool, evidence: PaperData
    ) -> base.FigurePanel:
        part = super()._figure_panel(label, rows, value, last, evidence)
        noted = next((row[self.note] for row in rows if self.note and row[self.by] == value), None)
        return part if noted is None else replace(part, title=f"{part.title}: {self.note} {100 * float(noted):.1f} %")

    def draw_panel(self, axes: Any, rows: list[_study.StudyRow], evidence: PaperData, last: bool) -> None:
        colours = category_colours(self.categories(evidence, self.colour))
        marks = self._marks(evidence)
        for value, colour in colours.items():
            axes.scatter([], [], s=12, color=colour, label=f"{self.colour} {value}")
            for letter, mark in marks.items():
                mine = [row for row in rows if row[self.colour] == value and row[self.letter] == letter]
                points = (_study.column_values(mine, self.x), _study.column_values(mine, self.y))
                axes.scatter(*points, s=16, color=colour, marker=mark, linewidths=0)
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])

    def _marks(self, evidence: PaperData) -> dict[str, str]:
        """Value of the letter column -> marker; a letter in a plain font."""
        values = self.categories(evidence, self.letter)
        return {value: rf"$\mathrm{{{LETTERS[place % len(LETTERS)]}}}$" for place, value in enumerate(values)}

    def explanations(self, evidence: PaperData) -> list[str]:
        values = self.categories(evidence, self.letter)
        named = ", ".join(f"{LETTERS[place % len(LETTERS)]} {value}" for place, value in enumerate(values))
        return [f"Letters are {self.letter}: {named}.", *super().explanations(evidence)]
