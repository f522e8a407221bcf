"""Tables before formatting: columns and rows that the page, the CSV file and the LaTeX file
share."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedrepro.report.numbers import NO_VALUE, Number
from fedrepro.report.statistics import estimate

Row = dict[str, str | Number]  # column title -> cell
# columns that name rows; the title of a target ends with its unit
PANEL, SERIES, TARGET = "Panel", "Series", "Target"
IN_THE_PAPER = "in the paper"  # the name of a row of reported values
SYMBOLS = {"%": " percent", "'": ""}


@dataclass(frozen=True)
class Grid:
    """Columns and rows of a table; a column is text if none of its cells is a number.

    `reported` maps columns of the paper's values to the columns of ours; `paper_rows` are the rows
    of such values.
    """

    columns: list[str]
    rows: list[Row]
    reported: Mapping[str, str] = field(default_factory=dict)
    paper_rows: frozenset[int] = frozenset()

    @classmethod
    def from_rows(cls, rows: list[Row], reported: Mapping[str, str] | None = None) -> "Grid":
        """Return a grid whose columns are in the order of their first occurrence in the rows."""
        columns = list(dict.fromkeys(name for row in rows for name in row)) or [PANEL, SERIES]
        return cls(
            columns,
            rows,
            {theirs: ours for theirs, ours in (reported or {}).items() if theirs in columns},
        )

    def folded(self) -> "Grid":
        """Return the grid with the paper's values in rows of their own below ours."""
        columns = [name for name in self.columns if name not in self.reported]
        rows: list[Row] = []
        paper_rows = set()
        for row in self.rows:
            rows.append({name: cell for name, cell in row.items() if name in columns})
            values = {
                ours: row[theirs]
                for theirs, ours in self.reported.items()
                if _has_value(row.get(theirs))
            }
            if values:
                paper_rows.add(len(rows))
                panel = {PANEL: row[PANEL]} if PANEL in row else {}
                rows.append(dict.fromkeys(columns, "") | panel | {SERIES: IN_THE_PAPER} | values)
        return Grid(columns, rows, paper_rows=frozenset(paper_rows))

    def transposed(self) -> "Grid | None":
        """Return the folded grid with a row for each column, None if it has a column of text
        besides the series' names."""
        ours = [name for name in self.columns if name != SERIES and name not in self.reported]
        if self.columns[0] != SERIES or len(ours) < 2 or not all(map(self.is_numeric, ours)):
            return None
        units = {name.rpartition(" ")[2] for name in ours}
        unit = (
            f" {units.pop()}"
            if len(units) == 1 and all(name.endswith(")") for name in ours)
            else ""
        )
        theirs = {name: column for column, name in self.reported.items()}
        first, rows, paper_rows = f"Set-up{unit}", [], set()
        for name in ours:
            cells = {str(row[SERIES]): row.get(name, NO_VALUE) for row in self.rows}
            rows.append({first: name.removesuffix(unit)} | cells)
            values = {str(row[SERIES]): row.get(theirs.get(name, ""), "") for row in self.rows}
            if any(map(_has_value, values.values())):
                paper_rows.add(len(rows))
                rows.append(
                    {first: IN_THE_PAPER}
                    | {label: cell if _has_value(cell) else "" for label, cell in values.items()}
                )
        return Grid(
            [first, *(str(row[SERIES]) for row in self.rows)],
            rows,
            paper_rows=frozenset(paper_rows),
        )

    def cells(self, column: str) -> list[str | Number]:
        return [row.get(column, NO_VALUE) for row in self.rows]

    def is_numeric(self, column: str) -> bool:
        return any(isinstance(cell, Number) for cell in self.cells(column))

    @property
    def best_cells(self) -> set[tuple[int, int]]:
        """Return (row, column), from 0, of the numbers that are marked as best."""
        best = set()
        for j, column in enumerate(self.columns):
            best |= {
                (i, j)
                for i, cell in enumerate(self.cells(column))
                if isinstance(cell, Number) and cell.best
            }
        return best

    def text_rows(self) -> list[list[str]]:
        """Return the rows as printed, without the column titles."""
        return [[str(row.get(name, NO_VALUE)) for name in self.columns] for row in self.rows]

    def csv_rows(self) -> list[list]:
        """Return the rows of the CSV file, the first with the column names; a missing number is
        empty.

        A column of means over seeds is followed by half of the 95 % interval and the number of
        seeds (`_half_width`, `_n`), a column of the paper's means by their standard deviation
        (`_deviation`).
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
                columns.append(
                    (f"{name}_n", ["" if number.n is None else number.n for number in numbers])
                )
            elif any(half_widths):
                columns.append((f"{name}_deviation", half_widths))
        rows = [[cells[i] for _, cells in columns] for i in range(len(self.rows))]
        return [[name for name, _ in columns], *rows]


def as_numbers(cells: Sequence[str | Number]) -> list[Number]:
    """Return the cells of a column of numbers, with an empty number for each cell of text."""
    return [cell if isinstance(cell, Number) else Number() for cell in cells]


def mark_best(
    rows: Sequence[Row], column: str, lowest: bool, excluded: Collection[str] = ()
) -> None:
    """Mark the best mean of a column if a paired test over seeds (95 %) separates it from every
    other one. Qualified numbers and the `excluded` series, whose remaining seeds do not speak for a
    diverged run, are not compared; no lead below 0 is the best.
    """
    compared: list[tuple[Row, Number]] = []
    for row in rows:
        cell = row.get(column)
        if (
            isinstance(cell, Number)
            and cell.value is not None
            and not cell.qualifier
            and row[SERIES] not in excluded
        ):
            compared.append((row, cell))
    compared.sort(key=lambda pair: pair[1].value or 0.0, reverse=not lowest)
    if len(compared) > 1 and all(_differ(compared[0][1], cell) for _, cell in compared[1:]):
        row, cell = compared[0]
        lead = (cell.value or 0.0) * (-1 if lowest else 1)
        row[column] = replace(cell, best=lead > 0 or not cell.signed)


def _differ(one: Number, other: Number) -> bool:
    """Return whether the numbers look different and the 95 % interval of their difference, seed by
    seed, excludes 0."""
    differences = [
        value - other.samples[seed] for seed, value in one.samples.items() if seed in other.samples
    ]
    return (
        one.value_text != other.value_text
        and len(differences) > 1
        and estimate(differences).side() != 0
    )


def _has_value(cell: str | Number | None) -> bool:
    return isinstance(cell, Number) and (cell.value is not None or cell.placeholder != NO_VALUE)


def slug(title: str) -> str:
    """Return a column's name in the CSV file: `Saved vs FedAvg (%)` becomes
    `saved_vs_fedavg_percent`."""
    for symbol, text in SYMBOLS.items():
        title = title.replace(symbol, text)
    return re.sub("[^a-z0-9]+", "_", title.lower()).strip("_")


def _csv_number(value: float | None) -> str:
    return "" if value is None else format(round(value, 6), ".15g")
