"""Points of a study, such as features in two dimensions: the colour shows one column, the letter another, the panel a third."""

from dataclasses import replace
from typing import Any, ClassVar

from fedrepro.report.figures import _study, base
from fedrepro.report.figures._style import category_colours
from fedrepro.report.inputs.panel import PaperData

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Figure(_study.StudyFigure):
    """Points of a study. `x`, `y`, `colour`, `letter`: columns of the study; axes have no numbers. `note`: a column of shares,
    0..1, with one value per panel, shown in the panel's title."""

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
        panel = super()._figure_panel(label, rows, value, last, evidence)
        share = next((row[self.note] for row in rows if self.note and row[self.by] == value), None)
        return panel if share is None else replace(panel, title=f"{panel.title}: {self.note} {100 * float(share):.1f} %")

    def draw_panel(self, axes: Any, rows: list[_study.StudyRow], evidence: PaperData, last: bool) -> None:
        colours = category_colours(self.categories(evidence, self.colour))
        letters = self._letters(evidence)
        for value, colour in colours.items():
            axes.scatter([], [], s=12, color=colour, label=self.category_name(evidence, self.colour, value))
            for category, letter in letters.items():
                points = [row for row in rows if row[self.colour] == value and row[self.letter] == category]
                x, y = _study.column_values(points, self.x), _study.column_values(points, self.y)
                axes.scatter(x, y, s=16, color=colour, marker=rf"$\mathrm{{{letter}}}$", linewidths=0)
        names = [f"{letter} = {self.letter} {value}" for value, letter in letters.items()]
        axes.scatter(
            [], [], s=16, color="0.3", marker=rf"$\mathrm{{{LETTERS[0]}}}$", linewidths=0, label=f"{names[0]} ... {names[-1]}"
        )
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])

    def _letters(self, evidence: PaperData) -> dict[str, str]:
        """Return the letter of each value of the letter column."""
        values = self.categories(evidence, self.letter)
        return {value: LETTERS[place % len(LETTERS)] for place, value in enumerate(values)}

    def explanations(self, evidence: PaperData) -> list[str]:
        letters = ", ".join(f"{letter} {value}" for value, letter in self._letters(evidence).items())
        return [f"Letters: {self.letter} ({letters}).", *super().explanations(evidence)]
