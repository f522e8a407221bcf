"""One setting of a method down, another across, a cell of the series that has both: which reading of a method does what."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fedrepro.report import quantities
from fedrepro.report.inputs.panel import Evidence, Panel
from fedrepro.report.inputs.references import Known
from fedrepro.report.numbers import Number, over
from fedrepro.report.quantities.base import Cell
from fedrepro.report.reasons import sentence
from fedrepro.report.settings_text import told_as
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row


class Table(base.Table):
    """`row`, `column`: settings such as `algorithm.importance`; a series without one of them is no part of it. `cell`: what is
    computed of each series, without its name."""

    row: str
    column: str
    cell: dict[str, Any]
    best: ClassVar = ""

    def check(self, known: Known) -> None:
        super().check(known)
        for ref in self.panels:
            series = known.series(ref.experiment)
            for label in series:
                self._of(label, f"{known.file}: {known.key}.cell").check(known.at("cell"), ref)
            self._once(known, series)

    def _once(self, known: Known, series: Mapping[str, Any]) -> None:
        """That no two series have the same two settings, as far as they are written out."""
        places: dict[tuple, str] = {}
        for label, choice in series.items():
            place = tuple(choice.get(path.partition(".")[2]) for path in (self.row, self.column))
            if None not in place and (other := places.setdefault(place, label)) != label:
                known.at("panels").refuse(f"{other} and {label} have the same {self.row} and {self.column}")

    def _of(self, label: str, where: str = "cell") -> Cell:
        return quantities.read({"series": label} | self.cell, where)

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[Row]:
        return [row for panel in panels for row in self._rows(panel, len(panels) > 1)]

    def _rows(self, panel: Panel, several: bool) -> list[Row]:
        found: dict[Any, Row] = {}
        for label, (down, across) in self._places(panel).items():
            named = {"Panel": panel.name} if several else {}
            row = found.setdefault(down, named | {_title(self.row): told_as(self.row, down)})
            row[told_as(self.column, across)] = self._number(panel, label)
        return list(found.values())

    def _places(self, panel: Panel) -> dict[str, tuple[Any, Any]]:
        """Series -> its two settings, of those that have both."""
        pairs = {label: tuple(panel.setting(label, path) for path in (self.row, self.column)) for label in panel.results.labels}
        return {label: pair for label, pair in pairs.items() if None not in pair}

    def _number(self, panel: Panel, label: str) -> Number:
        cell = self._of(label)
        values, _ = cell.found(panel)
        number = over([cell.unit(panel.measure).factor * value for value in values], 2)
        return number if number.value is None else Number(number.value, 2, number.half_width, number.n, signed=cell.contrast)

    def told(self, panels: list[Panel]) -> list[str]:
        axes = {panel.name: self._of("").label(panel.measure) for panel in panels}
        words = list(dict.fromkeys(axes.values()))
        parts = [f"Down: {_title(self.row).lower()}; across: {_title(self.column).lower()}; in each place: {', '.join(words)}"]
        for panel in panels:
            where = f"{panel.name}, " * (len(panels) > 1)
            reasons = {label: self._of(label).found(panel)[1] for label in self._places(panel)}
            parts += [f"No number of {where}{label}: {sentence(own)}" for label, own in reasons.items() if own]
        return parts


def _title(path: str) -> str:
    return path.rpartition(".")[2].replace("_", " ").capitalize()
