"""Tables as LaTeX: a float for an article of one or two columns, and a table that runs over
pages."""

import re
from collections.abc import Sequence
from dataclasses import replace
from unicodedata import combining, lookup, normalize

from fedrepro.report.numbers import NO_VALUE, Number, with_minus_signs
from fedrepro.report.tables._grid import PANEL, SERIES, TARGET, Grid, as_numbers

SMALL = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu nu xi pi rho sigma "
    "tau upsilon phi chi psi omega"
)
# the others are Latin letters
CAPITAL = "Gamma Delta Theta Lamda Xi Pi Sigma Upsilon Phi Psi Omega"
MATHS = {
    lookup(f"GREEK SMALL LETTER {name}"): name.replace("lamda", "lambda") for name in SMALL.split()
}
MATHS |= {
    lookup(f"GREEK CAPITAL LETTER {name}"): name.replace("Lamda", "Lambda")
    for name in CAPITAL.split()
}
MATHS |= {
    "µ": "mu",
    "±": "pm",
    "×": "times",
    "·": "cdot",
    "≤": "le",
    "≥": "ge",
    "≈": "approx",
    "≠": "ne",
    "→": "to",
}
MATHS |= {"∞": "infty", "√": "surd", "∈": "in", "∑": "sum"}
LETTERS = "ßæøåœłıÆØÅŒŁ"  # in every TeX font, as are letters with one of these accents
ACCENTS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"
REPLACEMENTS = {character: rf"\{character}" for character in "%_&#{}"}
REPLACEMENTS |= {
    "$": r"$\mathdollar$",
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}
# behind \\ a bracket would be an option
REPLACEMENTS |= {"<": "$<$", ">": "$>$", "[": "{[}", "|": r"\textbar{}"}
REPLACEMENTS |= {
    "°": r"$^\circ$",
    "²": "$^2$",
    "³": "$^3$",
    "⁄": "/",
    "§": r"\S{}",
    "©": r"\copyright{}",
}
REPLACEMENTS |= {"–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "’": "'"}
REPLACEMENTS |= {"−": "$-$"} | {character: rf"$\{name}$" for character, name in MATHS.items()}
ABBREVIATION = re.compile(r"\b(Figs?|Sect?|Eqs?|Tab)\. ")

MAX_TITLE_LENGTH = 9  # characters on one line of a column title
# points: width of a column and of the page in an article with two columns
COLUMN, PAGE = 229.0, 468.0
DIGIT, WIDE, PLUS_MINUS, SEPARATION = 4.3, 6.3, 9.5, 6.0  # points: widths in 8 pt type
BARE = "fedreprobare"  # the command that leaves out the notes, if it is defined
SETUP = (
    r"\sisetup{mode=math, reset-text-series=false, text-series-to-math=true, "
    r"retain-explicit-plus=true}"
)
PACKAGES = "booktabs, xcolor and siunitx (version 3)"
ONE_COLUMN = r"""\makeatletter % longtable needs one column; revtex4-2 has its own commands
\ifdefined\onecolumngrid@push\onecolumngrid@push\let\fedreproend\onecolumngrid@pop
\else\if@twocolumn\onecolumn\let\fedreproend\twocolumn\else\let\fedreproend\relax\fi\fi
\makeatother
"""


def table(grid: Grid, caption: str, notes: str, label: str, source: str) -> str:
    r"""Return a `table` float with caption, label and notes below, in type of 8 pt.

    It is as narrow as its content allows: one column of an article if the series or the panels as
    rows fit, otherwise both columns (`table*`), in several parts where even they do not suffice.
    Values that are the same in all rows are in the caption. `source` becomes a comment. A table
    without rows consists of caption and notes, which say why there are none; \fedreprobare, where
    it is defined, leaves out the notes.
    """
    grid, constants = _without_constants(grid)
    environment, shape, parts = _layout(grid)
    cells = [cell for row in shape.rows for cell in row.values()]
    qualifiers = list(
        dict.fromkeys(
            cell.qualifier for cell in cells if isinstance(cell, Number) and cell.qualifier
        )
    )
    footnotes = " ".join(
        rf"\textsuperscript{{{_letter(i)}}}{escape(text)}." for i, text in enumerate(qualifiers)
    )
    caption = " ".join([caption, *constants])
    lines = [
        f"% {source}",
        f"% Needs the packages {PACKAGES}. \\newcommand{{\\{BARE}}}{{}} before it leaves out the "
        f"notes.",
    ]
    lines += [
        rf"\begin{{{environment}}}[!htb]",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\belowcaptionskip}{4pt}",
    ]
    lines += [rf"\caption{{{escape(caption)}}}", rf"\label{{{label}}}"]
    if grid.rows:
        lines += [SETUP, rf"\setlength{{\tabcolsep}}{{{SEPARATION / 2:g}pt}}"]
        for columns in parts:
            # a table for the width of a page stands out on both sides of a narrower column, where
            # margins have room
            lines += [
                rf"\makebox[\linewidth][c]{{{_tabular(shape, columns, qualifiers)}}}",
                r"\par\smallskip",
            ]
    if footnotes:
        lines.append(rf"\parbox{{\linewidth}}{{\raggedright\scriptsize {footnotes}}}\par")
    lines.append(
        rf"\ifdefined\{BARE}\else\parbox{{\linewidth}}{{\raggedright\scriptsize "
        rf"{escape(notes)}}}\fi"
    )
    return "\n".join([*lines, rf"\end{{{environment}}}"]) + "\n"


def _without_constants(grid: Grid) -> tuple[Grid, list[str]]:
    """Remove columns of text or counts that have one value in all of several rows; return their
    sentences."""
    sentences: list[str] = []
    for name in grid.columns[1:] if len(grid.rows) > 1 else []:
        cells = grid.cells(name)
        measured = any(
            isinstance(cell, Number) and (cell.n is not None or cell.qualifier) for cell in cells
        )
        involved = name in (PANEL, SERIES, *grid.reported, *grid.reported.values())
        if (
            not measured
            and not involved
            and len(set(map(str, cells))) == 1
            and str(cells[0]) != NO_VALUE
        ):
            sentences.append(f"{name}: {cells[0]}.")
            grid = replace(grid, columns=[column for column in grid.columns if column != name])
    return grid, sentences


def _layout(grid: Grid) -> tuple[str, Grid, list[list[str]]]:
    """Return the environment, the grid with series or panels as rows, and the columns of each part
    of the table."""
    folded, transposed = grid.folded(), grid.transposed()
    for environment, limit in (("table", COLUMN), ("table*", PAGE)):
        for shape in filter(None, (folded, transposed)):
            columns = [name for name in shape.columns if name != PANEL]
            if _width(shape, columns) <= limit:
                return environment, shape, [columns]
    first, *others = [name for name in folded.columns if name != PANEL]
    parts = [[first]]
    for name in others:
        if len(parts[-1]) > 1 and _width(folded, [*parts[-1], name]) > PAGE:
            parts.append([first])
        parts[-1].append(name)
    return "table*", folded, parts


def _width(grid: Grid, columns: Sequence[str]) -> float:
    """Estimate the width of columns in points."""
    width = SEPARATION * (len(columns) - 1)
    for name in columns:
        cells, numeric = grid.cells(name), grid.is_numeric(name)
        title = max(map(_text_width, split_title(name) if numeric else [name]))
        body = max(
            (_text_width(cell.value_text if isinstance(cell, Number) else cell) for cell in cells),
            default=0.0,
        )
        intervals = [
            _text_width(cell.half_width_text) for cell in as_numbers(cells) if cell.half_width_text
        ]
        width += max(title, body + (PLUS_MINUS + max(intervals) if intervals else 0.0))
    panels = [_text_width(str(name)) for name in grid.cells(PANEL)] if PANEL in grid.columns else []
    return max(width, *panels) if len(set(panels)) > 1 else width


def _text_width(text: str) -> float:
    return sum(WIDE if character.isupper() or character in "mw%+±" else DIGIT for character in text)


def _tabular(grid: Grid, columns: Sequence[str], qualifiers: list[str]) -> str:
    """Return a booktabs tabular with a siunitx column for each column of numbers.

    Intervals and footnote letters are in a column of their own under the same title: siunitx drops
    an interval of zero and sets no space before the others.
    """
    import pandas as pd  # slow to import, and needed only here

    titles, formats, cells, best = [], "", [], set()
    for name in columns:
        numeric, column = grid.is_numeric(name), grid.cells(name)
        best |= {
            (i, len(cells))
            for i, cell in enumerate(column)
            if isinstance(cell, Number) and cell.best
        }
        cells.append([_cell(cell, numeric) for cell in column])
        titles.append((_title(name) if numeric else escape(name), "value"))
        formats += siunitx_format(column) if numeric else "l"
        intervals = _intervals(column, qualifiers)
        if any(intervals):
            cells.append(intervals)
            titles.append((_title(name), "interval"))
            formats += r"@{\,}l"
    frame = pd.DataFrame(list(zip(*cells, strict=True)), columns=pd.MultiIndex.from_tuples(titles))
    style = frame.style.hide(axis="index").hide(axis="columns", level=1)
    style = style.apply(_styles, best=best, grey=grid.paper_rows, axis=None)
    text = style.to_latex(
        hrules=True, siunitx=True, column_format=rf"@{{}}{formats}@{{}}", multicol_align="c"
    )
    return _with_groups(text.rstrip("\n"), grid, len(cells))


def _intervals(column: Sequence[str | Number], qualifiers: list[str]) -> list[str]:
    """Return the intervals and footnote letters behind a column of numbers, padded so that they
    align."""
    numbers = as_numbers(column)
    widest = max(len(number.half_width_text) for number in numbers)
    texts = []
    for number in numbers:
        missing = widest - len(number.half_width_text)
        space = rf"\phantom{{{'0' * missing}}}" if missing else ""
        interval = rf"$\pm$\,{space}{number.half_width_text}" if number.half_width_text else ""
        footnote = (
            rf"\textsuperscript{{{_letter(qualifiers.index(number.qualifier))}}}"
            if number.qualifier
            else ""
        )
        texts.append(interval + footnote)
    return texts


def _styles(frame, best: set[tuple[int, int]], grey: frozenset[int]):
    """Return the pandas styles of a table whose best numbers are bold and whose rows of the paper's
    values are grey."""
    styles = frame.copy()
    for j in range(frame.shape[1]):
        bold = ["bfseries: ;" if (i, j) in best else "" for i in range(len(frame))]
        styles.isetitem(j, ["color: {gray};" if i in grey else text for i, text in enumerate(bold)])
    return styles


def _with_groups(text: str, grid: Grid, columns: int) -> str:
    """Add space between panels and between targets, and each panel's name above its rows if there
    are several panels.

    `text` is a tabular with one line per row between the rules.
    """
    head, body = text.split("\\midrule\n")
    rows, foot = body.split("\\bottomrule\n")
    several_panels = PANEL in grid.columns and len(set(grid.cells(PANEL))) > 1
    lines, previous_panel, previous_group = [head + r"\midrule"], "", None
    for i, (row, line) in enumerate(zip(grid.rows, rows.splitlines(), strict=True)):
        if i in grid.paper_rows:
            lines.append(rf"\quad {line}")
            continue
        panel = str(row.get(PANEL, ""))
        group = (panel, [str(cell) for name, cell in row.items() if name.startswith(TARGET)])
        if previous_group not in (None, group):
            lines.append(r"\addlinespace")
        if panel != previous_panel and several_panels:
            lines.append(rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\textit{{{escape(panel)}}}}} \\")
        lines.append(line)
        previous_panel, previous_group = panel, group
    return "\n".join([*lines, r"\bottomrule", foot])


def _cell(cell: str | Number, numeric: bool) -> str:
    """Return a cell as LaTeX without its interval; text in a column of numbers is in braces, for
    siunitx."""
    if isinstance(cell, Number) and cell.value is not None:
        return cell.value_text
    text = _dash(cell.placeholder if isinstance(cell, Number) else cell)
    return f"{{{text}}}" if numeric else text


def _dash(text: str) -> str:
    return "--" if text == NO_VALUE else escape(text)


def _letter(index: int) -> str:
    return chr(ord("a") + index)


def siunitx_format(cells: Sequence[str | Number]) -> str:
    """Return the siunitx column for some numbers: sign, digits before and after the decimal
    point."""
    texts = [
        cell.value_text for cell in cells if isinstance(cell, Number) and cell.value is not None
    ]
    if not texts:
        return "c"
    signs = {text[0] for text in texts if text[0] in "+-"}
    sign = "-" if "-" in signs else "".join(signs)
    parts = [text.lstrip("+-").partition(".") for text in texts]
    integers, decimals = (
        max(len(integer) for integer, _, _ in parts),
        max(len(decimal) for _, _, decimal in parts),
    )
    return f"S[table-format={sign}{integers}{f'.{decimals}' if decimals else ''}]"


def _title(title: str) -> str:
    """Return the title of a column of numbers, on two lines if it is long."""
    lines = [escape(line) for line in split_title(title)]
    # in a column of siunitx revtex4-2 accepts neither tabular nor \\
    stack = r"\shortstack{" + r"\cr ".join(lines) + "}"
    return lines[0] if len(lines) == 1 else stack


def split_title(title: str) -> list[str]:
    """Split a title that is too long for one line into two lines of similar length."""
    words = re.split(r"(?<!Fig\.) ", title)
    if len(title) <= MAX_TITLE_LENGTH or len(words) == 1:
        return [title]
    pairs = [(" ".join(words[:i]), " ".join(words[i:])) for i in range(1, len(words))]
    return list(min(pairs, key=lambda pair: max(map(len, pair))))


def long_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    shares: Sequence[float],
    caption: str,
    label: str,
    source: str,
) -> str:
    """Return a longtable, which runs over pages of one column, also in an article of two; `shares`
    are the columns' parts of the line width."""
    import pandas as pd

    widths = [rf"\dimexpr {share / sum(shares):.3f}\linewidth-2\tabcolsep" for share in shares]
    formats = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}}}" for width in widths)
    frame = pd.DataFrame(
        [[escape(cell) for cell in row] for row in rows], columns=[escape(name) for name in columns]
    )
    head = f"% {source}\n% Needs the packages array, booktabs and longtable.\n{ONE_COLUMN}"
    style, caption = frame.style.hide(axis="index"), escape(caption)
    text = style.to_latex(
        hrules=True, caption=caption, label=label, column_format=formats, environment="longtable"
    )
    return f"{head}{{\\footnotesize\\setlength{{\\tabcolsep}}{{2pt}}\n{text}}}\\fedreproend\n"


def escape(text: str) -> str:
    """Return plain text as LaTeX, with minus signs, and a space that neither breaks nor widens
    behind "Fig." and the like."""
    return ABBREVIATION.sub(r"\1.~", "".join(map(_escaped, with_minus_signs(str(text)))))


def _escaped(character: str) -> str:
    """Return a character as LaTeX; one that pdflatex's fonts lack as its parts (₂ is 2, ą is a),
    otherwise as its number, which XeLaTeX and LuaLaTeX replace by the character if the font has
    it."""
    if character in REPLACEMENTS:
        return REPLACEMENTS[character]
    if character.isspace():
        return " "
    if character in LETTERS or (character.isascii() and character.isprintable()):
        return character
    base, *marks = normalize("NFD", character)
    if character <= "\u017f" and base.isascii() and len(marks) == 1 and marks[0] in ACCENTS:
        return character
    parts = [part for part in normalize("NFKD", character) if not combining(part)]
    if parts and all(
        part in REPLACEMENTS or (part.isascii() and part.isprintable()) for part in parts
    ):
        return "".join(REPLACEMENTS.get(part, part) for part in parts)
    code = f"{ord(character):04X}"
    has_it = rf'\ifnum0\ifdefined\Umathcode\iffontchar\font"{code} 1\fi\fi=1'
    number = rf"\texttt{{U+{code}}}"
    return rf"{{{has_it} {character}\else{number}\fi}}" if character.isprintable() else number
