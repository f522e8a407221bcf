"""A table before it is text: page, CSV and LaTeX show the same grid."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fedrepro.report.numbers import NO_VALUE, Number

Row = dict[str, str | Number]
SYMBOLS = {"%": " percent", "'": ""}


@dataclass(frozen=True)
class Grid:
    """Columns and rows; a column holds numbers, or text where no cell is a number."""

    columns: list[str]
    rows: list[Row]

    @classmethod
    def from_rows(cls, rows: list[Row]) -> "Grid":
        """Columns in the order in which the rows bring them."""
        return cls(list(dict.fromkeys(name for row in rows for name in row)) or ["Panel", "Series"], rows)

    def cells(self, column: str) -> list[str | Number]:
        return [row.get(column, NO_VALUE) for row in self.rows]

    def is_numeric(self, column: str) -> bool:
        return any(isinstance(cell, Number) for cell in self.cells(column))

    @property
    def best_cells(self) -> set[tuple[int, int]]:
        """(row, column) of the numbers that are best among those that they can be compared with, from 0."""
        found = enumerate(self.rows)
        return {(i, j) for i, row in found for j, name in enumerate(self.columns) if getattr(row.get(name), "best", False)}

    def text_rows(self) -> list[list[str]]:
        """The rows as they are read, without the columns."""
        return [[str(row.get(name, NO_VALUE)) for name in self.columns] for row in self.rows]

    def csv_rows(self) -> list[list]:
        """Rows for other programs, the first with names of columns; a number that is not there is empty. Beside means over
        seeds stand half of their 95 % interval and the seeds, `_half_width` and `_n`, beside a paper's its `_deviation`."""
        names, parts = [], []
        for column in self.columns:
            name, cells = slug(column), self.cells(column)
            if not self.is_numeric(column):
                names, parts = [*names, name], [*parts, cells]
                continue
            numbers = [cell if isinstance(cell, Number) else Number() for cell in cells]
            names, parts = [*names, name], [*parts, [_plain(number.value) for number in numbers]]
            if any(number.n is not None for number in numbers):
                names += [f"{name}_half_width", f"{name}_n"]
                parts.append([_plain(number.half_width) for number in numbers])
                parts.append(["" if number.n is None else number.n for number in numbers])
            elif any(number.half_width is not None for number in numbers):
                names, parts = [*names, f"{name}_deviation"], [*parts, [_plain(number.half_width) for number in numbers]]
        return [names, *([part[i] for part in parts] for i in range(len(self.rows)))]


def mark_best(rows: Sequence[Row], column: str, lowest: bool, excluded: Iterable[str] = ()) -> None:
    """Mark the best number of a column, at the digits that are shown, ties all; among at least two whole ones, of series that
    lost no run: the seeds that are left do not speak for the one that is lost."""
    out = set(excluded)
    rivals = [row for row in rows if row["Series"] not in out and _whole(row.get(column))]
    seen = [float(row[column].value_text) for row in rivals]
    if len(seen) < 2:
        return
    first = min(seen) if lowest else max(seen)
    for row, value in zip(rivals, seen, strict=True):
        if value == first:
            row[column] = replace(row[column], best=True)


def _whole(cell: str | Number | None) -> bool:
    return isinstance(cell, Number) and cell.value is not None and not cell.qualifier


def slug(title: str) -> str:
    """A column's name for programs: `Saved vs FedAvg (%)` is `saved_vs_fedavg_percent`."""
    for symbol, text in SYMBOLS.items():
        title = title.replace(symbol, text)
    return re.sub("[^a-z0-9]+", "_", title.lower()).strip("_")


def _plain(value: float | None) -> str:
    return "" if value is None else format(round(value, 6), ".15g")
