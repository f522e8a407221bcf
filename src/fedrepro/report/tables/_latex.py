"""Tables as LaTeX: a float that is put into an article as it is, and a table that runs over pages."""

import re
from collections.abc import Sequence
from unicodedata import combining, lookup, normalize

from fedrepro.report.numbers import NO_VALUE, Number
from fedrepro.report.tables._grid import Grid

SMALL = "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
CAPITAL = "Gamma Delta Theta Lamda Xi Pi Sigma Upsilon Phi Psi Omega"  # the others are Latin letters
MATHS = {lookup(f"GREEK SMALL LETTER {name}"): name.replace("lamda", "lambda") for name in SMALL.split()}
MATHS |= {lookup(f"GREEK CAPITAL LETTER {name}"): name.replace("Lamda", "Lambda") for name in CAPITAL.split()}
MATHS |= {"µ": "mu", "±": "pm", "×": "times", "·": "cdot", "≤": "le", "≥": "ge", "≈": "approx", "≠": "ne", "→": "to"}
MATHS |= {"∞": "infty", "√": "surd", "∈": "in", "∑": "sum"}
LETTERS = "ßæøåœłıÆØÅŒŁ"  # that every TeX font has, beside those with one of these accents
ACCENTS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"
REPLACEMENTS = {character: rf"\{character}" for character in "%_&#{}"}
REPLACEMENTS |= {"$": r"$\mathdollar$", "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
REPLACEMENTS |= {"<": "$<$", ">": "$>$", "[": "{[}", "|": r"\textbar{}"}  # behind \\ a bracket would be an option
REPLACEMENTS |= {"°": r"$^\circ$", "²": "$^2$", "³": "$^3$", "⁄": "/", "§": r"\S{}", "©": r"\copyright{}"}
REPLACEMENTS |= {"–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "’": "'"}
REPLACEMENTS |= {"−": "$-$"} | {character: rf"$\{name}$" for character, name in MATHS.items()}
FIGURE = re.compile(r"\b(Figs?|Sect?|Eqs?|Tab)\. ")

GROUPS, TARGETS = "Panel", "Target"  # columns by which rows belong together; the panel stands over its rows, or in the caption
COLUMNS = 4  # that fit into one column of an article with two; where they do not, the table is scaled
WORD = 9  # letters that a title may have on one line
SETUP = r"\sisetup{mode=math, reset-text-series=false, text-series-to-math=true, retain-explicit-plus=true}"
FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
PACKAGES = "booktabs, graphicx and siunitx (version 3)"


def table(grid: Grid, caption: str, notes: str, label: str, source: str) -> str:
    """A `table`, over both columns of an article where it is wide, with caption and label; below it the notes. It brings its
    settings along. `source` stands in a comment. Without rows the notes say why."""
    columns = [name for name in grid.columns if name != GROUPS]
    room = "table*" if len(columns) > COLUMNS else "table"
    asides = list(dict.fromkeys(cell.qualifier for row in grid.rows for cell in row.values() if getattr(cell, "qualifier", "")))
    below = [rf"\textsuperscript{{{_letter(i)}}}{escape(text)}." for i, text in enumerate(asides)]
    lines = [f"% {source}", f"% Needs the packages {PACKAGES}."]
    lines += [rf"\begin{{{room}}}[!htb]", r"\centering", r"\small", r"\setlength{\belowcaptionskip}{4pt}"]
    lines += [rf"\caption{{{escape(caption)}}}", rf"\label{{{label}}}"]
    if grid.rows:
        lines += [SETUP, r"\setlength{\tabcolsep}{4pt}", FIT, _tabular(grid, columns, asides) + "}", r"\par\smallskip"]
    lines += [rf"\parbox{{\linewidth}}{{\footnotesize {' '.join([*below, escape(notes)])}}}", rf"\end{{{room}}}"]
    return "\n".join(lines) + "\n"


def _panels(grid: Grid) -> int:
    """To how many panels its rows belong, 0 without such a column: one is told by the caption, several over their rows."""
    return len(set(grid.cells(GROUPS))) if GROUPS in grid.columns else 0


def _tabular(grid: Grid, columns: list[str], asides: list[str]) -> str:
    """Booktabs. A column of numbers is a siunitx column; their intervals, or the letters of what is told below, are a column of
    their own under the same title, since siunitx drops an interval of zero and sets no space before the others."""
    import pandas as pd  # slow to import, and only here

    titles, kinds, cells, bold = [], "", [], set()
    for name in columns:
        numeric, column = grid.is_numeric(name), grid.cells(name)
        bold |= {(i, len(cells)) for i, cell in enumerate(column) if getattr(cell, "best", False)}
        cells.append([_cell(cell, numeric) for cell in column])
        titles.append((_title(name) if numeric else escape(name), "value"))
        kinds += siunitx_format(column) if numeric else "l"
        if beside := _beside(column, asides):
            cells.append(beside)
            titles.append((_title(name), "interval"))
            kinds += r"@{\,}l"
    frame = pd.DataFrame(list(zip(*cells, strict=True)), columns=pd.MultiIndex.from_tuples(titles))
    style = frame.style.hide(axis="index").hide(axis="columns", level=1).apply(_bold, found=bold, axis=None)
    text = style.to_latex(hrules=True, siunitx=True, column_format=kinds, multicol_align="c")
    return _with_groups(text.rstrip("\n"), grid, len(cells))


def _beside(column: Sequence[str | Number], asides: list[str]) -> list[str]:
    """What stands behind the numbers, the intervals one below the other; empty where nothing does."""
    numbers = [cell if isinstance(cell, Number) else Number() for cell in column]
    widest = max(len(number.half_width_text) for number in numbers)
    found = []
    for number in numbers:
        space = rf"\phantom{{{'0' * (widest - len(number.half_width_text))}}}" if len(number.half_width_text) < widest else ""
        interval = rf"$\pm$\,{space}{number.half_width_text}" if number.half_width_text else ""
        found.append(interval + (rf"\textsuperscript{{{_letter(asides.index(number.qualifier))}}}" if number.qualifier else ""))
    return found if any(found) else []


def _bold(frame, found: set[tuple[int, int]]):
    """Styles of the best numbers, as pandas takes them."""
    styles = frame.copy()
    for j in range(frame.shape[1]):
        styles.isetitem(j, ["bfseries: ;" if (i, j) in found else "" for i in range(len(frame))])
    return styles


def _with_groups(text: str, grid: Grid, columns: int) -> str:
    """Space between panels and between targets, and over the rows of each panel its name; each row is one line between the
    rules."""
    head, body = text.split("\\midrule\n")
    rows, foot = body.split("\\bottomrule\n")
    lines, before = [head + r"\midrule"], ("", "")
    for row, line in zip(grid.rows, rows.splitlines(), strict=True):
        panel = str(row.get(GROUPS, ""))
        group = (panel, "".join(str(cell) for name, cell in row.items() if name.startswith(TARGETS)))
        if before not in (("", ""), group):
            lines.append(r"\addlinespace")
        if panel != before[0] and _panels(grid) > 1:
            lines.append(rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\textit{{{escape(panel)}}}}} \\")
        lines.append(line)
        before = group
    return "\n".join([*lines, r"\bottomrule", foot])


def _cell(cell: str | Number, numeric: bool) -> str:
    """Text, or a number without its interval; a word in a column of numbers is no number for siunitx."""
    if isinstance(cell, Number) and cell.value is not None:
        return cell.value_text
    text = _dash(cell.placeholder if isinstance(cell, Number) else cell)
    return f"{{{text}}}" if numeric else text


def _dash(text: str) -> str:
    return "--" if text == NO_VALUE else escape(text)


def _letter(index: int) -> str:
    return chr(ord("a") + index)


def siunitx_format(cells: Sequence[str | Number]) -> str:
    """The siunitx column for its numbers: sign, digits before and after the point."""
    numbers = [cell for cell in cells if isinstance(cell, Number) and cell.value is not None]
    if not numbers:
        return "c"
    parts = [re.fullmatch(r"([+-]?)(\d+)\.?(\d*)", number.value_text).groups() for number in numbers]
    sign, decimals = max((part[0] for part in parts), key=" +-".find), max(len(part[2]) for part in parts)
    return f"S[table-format={sign}{max(len(part[1]) for part in parts)}{f'.{decimals}' if decimals else ''}]"


def _title(title: str) -> str:
    """A title of a column of numbers, on several lines where it is long."""
    lines = [escape(line) for line in split_title(title)]
    stack = r"\begin{tabular}[b]{@{}c@{}}" + r"\\".join(lines) + r"\end{tabular}"
    return lines[0] if len(lines) == 1 else stack


def split_title(title: str) -> list[str]:
    """Two lines, as even as they can be, of a title that is too long for one."""
    words = re.split(r"(?<!Fig\.) ", title)
    if len(title) <= WORD or len(words) == 1:
        return [title]
    pairs = [(" ".join(words[:i]), " ".join(words[i:])) for i in range(1, len(words))]
    return list(min(pairs, key=lambda pair: max(map(len, pair))))


def long_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], shares: Sequence[float], caption: str, label: str, source: str
) -> str:
    """A longtable, which runs over pages of one column each; `shares` are its columns' parts of a line."""
    import pandas as pd

    widths = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in shares)
    frame = pd.DataFrame([[escape(cell) for cell in row] for row in rows], columns=[escape(name) for name in columns])
    told = {"caption": escape(caption), "label": label, "column_format": widths, "environment": "longtable"}
    head = f"% {source}\n% Needs the packages array, booktabs and longtable, on pages of one column.\n"
    return head + frame.style.hide(axis="index").to_latex(hrules=True, **told)


def escape(text: str) -> str:
    """Plain text as LaTeX; no line ends behind an abbreviated word, nor a sentence."""
    return FIGURE.sub(r"\1.~", "".join(map(_escaped, str(text))))


def _escaped(character: str) -> str:
    """What the fonts of pdflatex lack is told by what it consists of (₂ is 2, ą is a), else by its number, e.g. of emoji."""
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
    if parts and all(part in REPLACEMENTS or (part.isascii() and part.isprintable()) for part in parts):
        return "".join(REPLACEMENTS.get(part, part) for part in parts)
    return rf"\texttt{{U+{ord(character):04X}}}"
