"""Tables before formatting: columns and rows that the page, the CSV file and the LaTeX file share."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fedrepro.report.numbers import NO_VALUE, Number

Row = dict[str, str | Number]  # column title -> cell
SYMBOLS = {"%": " percent", "'": ""}


@dataclass(frozen=True)
class Grid:
    """Columns and rows of a table; a column is text if none of its cells is a number."""

    columns: list[str]
    rows: list[Row]

    @classmethod
    def from_rows(cls, rows: list[Row]) -> "Grid":
        """Return a grid whose columns are in the order of their first occurrence in the rows."""
        return cls(list(dict.fromkeys(name for row in rows for name in row)) or ["Panel", "Series"], rows)

    def cells(self, column: str) -> list[str | Number]:
        return [row.get(column, NO_VALUE) for row in self.rows]

    def is_numeric(self, column: str) -> bool:
        return any(isinstance(cell, Number) for cell in self.cells(column))

    @property
    def best_cells(self) -> set[tuple[int, int]]:
        """Return (row, column), from 0, of the numbers that are marked as best."""
        best = set()
        for j, column in enumerate(self.columns):
            best |= {(i, j) for i, cell in enumerate(self.cells(column)) if isinstance(cell, Number) and cell.best}
        return best

    def text_rows(self) -> list[list[str]]:
        """Return the rows as printed, without the column titles."""
        return [[str(row.get(name, NO_VALUE)) for name in self.columns] for row in self.rows]

    def csv_rows(self) -> list[list]:
        """Return the rows of the CSV file, the first with the column names; a missing number is empty.

        A column of means over seeds is followed by half of the 95 % interval and the number of seeds (`_half_width`, `_n`), a
        column of the paper's means by their standard deviation (`_deviation`).
        """
        columns: list[tuple[str, Sequence]] = []
        for title in self.columns:
            name, cells = slug(title), self.cells(title)
            if not self.is_numeric(title):
                columns.append((name, cells))
                continue
            numbers = as_numbers(cells)
            half_widths = [_csv_number(number.half_width) for number in numbers]
            columns.append((name, [_csv_number(number.value) for number in numbers]))
            if any(number.n is not None for number in numbers):
                columns.append((f"{name}_half_width", half_widths))
                columns.append((f"{name}_n", ["" if number.n is None else number.n for number in numbers]))
            elif any(half_widths):
                columns.append((f"{name}_deviation", half_widths))
        rows = [[cells[i] for _, cells in columns] for i in range(len(self.rows))]
        return [[name for name, _ in columns], *rows]


def as_numbers(cells: Sequence[str | Number]) -> list[Number]:
    """Return the cells of a column of numbers, with an empty number for each cell of text."""
    return [cell if isinstance(cell, Number) else Number() for cell in cells]


def mark_best(rows: Sequence[Row], column: str, lowest: bool, excluded: Collection[str] = ()) -> None:
    """Mark the best numbers of a column, compared at the printed digits.

    Qualified numbers and the `excluded` series, whose remaining seeds do not speak for a diverged run, are not compared; fewer
    than two numbers are not marked.
    """
    compared: list[tuple[Row, Number]] = []
    for row in rows:
        cell = row.get(column)
        if isinstance(cell, Number) and cell.value is not None and not cell.qualifier and row["Series"] not in excluded:
            compared.append((row, cell))
    if len(compared) < 2:
        return
    values = [float(cell.value_text) for _, cell in compared]
    best = min(values) if lowest else max(values)
    for (row, cell), value in zip(compared, values, strict=True):
        if value == best:
            row[column] = replace(cell, best=True)


def slug(title: str) -> str:
    """Return a column's name in the CSV file: `Saved vs FedAvg (%)` becomes `saved_vs_fedavg_percent`."""
    for symbol, text in SYMBOLS.items():
        title = title.replace(symbol, text)
    return re.sub("[^a-z0-9]+", "_", title.lower()).strip("_")


def _csv_number(value: float | None) -> str:
    return "" if value is None else format(round(value, 6), ".15g")
