"""Tables of text as files: .csv and .tex (booktabs)."""

import csv
from collections.abc import Sequence
from pathlib import Path

GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "η": "eta", "λ": "lambda", "μ": "mu"}
GREEK |= {"µ": "mu", "ρ": "rho", "σ": "sigma", "τ": "tau"}
MATHS = {"±": "pm", "×": "times", "≤": "le", "≥": "ge", "≈": "approx", "→": "to", "−": "-"} | GREEK
MARKS = {character: rf"\{character}" for character in "%_&#{}"}
MARKS |= {"$": r"$\mathdollar$", "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
MARKS |= {"<": "$<$", ">": "$>$", "[": "{[}", "|": r"\textbar{}"}  # behind \\ a bracket would be an option
MARKS |= {"–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "’": "'"}
MARKS |= {character: "$-$" if name == "-" else rf"$\{name}$" for character, name in MATHS.items()}


def write(rows: list[dict[str, str]], folder: Path, key: str, remark: str = "") -> None:
    """`<key>.csv` and `<key>.tex`; the latter needs the booktabs package and starts with `remark` as a comment."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = [[row.get(name, "") for name in columns] for row in rows]
    with (folder / f"{key}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *values])
    (folder / f"{key}.tex").write_text(f"% {remark}\n" * bool(remark) + latex(columns, values), encoding="utf-8")


def latex(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: str | None = None) -> str:
    """A booktabs tabular, special characters escaped; with `widths` a longtable of such columns, which may run over pages."""
    import pandas as pd  # slow to import, and only here

    frame = pd.DataFrame([[escape(cell) for cell in row] for row in rows], columns=[escape(name) for name in columns])
    kind = {"column_format": widths, "environment": "longtable"} if widths else {"column_format": "l" * len(columns)}
    return frame.style.hide(axis="index").to_latex(hrules=True, **kind)


def escape(text: str) -> str:
    """Plain text as LaTeX."""
    return "".join(MARKS.get(character, character) for character in str(text))
