"""Tables as data frames of text, and the files that they become: .csv and .tex (booktabs)."""

from pathlib import Path

import pandas as pd

from fedrepro.report.cells import Panel
from fedrepro.report.kinds import FINAL, KINDS
from fedrepro.report.loading import Results
from fedrepro.report.spec import METRICS, Paper, Table

GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "η": "eta", "λ": "lambda", "μ": "mu"}
GREEK |= {"µ": "mu", "ρ": "rho", "σ": "sigma", "τ": "tau"}
MATHS = {"±": "pm", "×": "times", "≤": "le", "≥": "ge", "≈": "approx", "→": "to", "−": "-"} | GREEK
MARKS = {character: rf"\{character}" for character in "%_&#{}"}
MARKS |= {"$": r"$\mathdollar$", "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
MARKS |= {"<": "$<$", ">": "$>$", "[": "{[}", "|": r"\textbar{}"}  # behind \\ a bracket would be an option
MARKS |= {"–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "’": "'"}
MARKS |= {character: "$-$" if name == "-" else rf"$\{name}$" for character, name in MATHS.items()}


def build(table: Table, paper: Paper, results: dict[str, Results], curves: dict) -> pd.DataFrame:
    """The table's rows; `results` by experiment, `curves` the paper's digitised ones."""
    return pd.DataFrame(KINDS[table.kind](table, _panels(table, paper, results), curves))


def _panels(table: Table, paper: Paper, results: dict[str, Results]) -> list[Panel]:
    return [Panel(key, paper.figures[key], results[paper.figures[key].experiment]) for key in table.figures]


def caption(table: Table, paper: Paper, results: dict[str, Results]) -> str:
    """Title, and what a reader must know beside the numbers: reductions, metric, seeds, data, scale."""
    return f"{table.title}{'' if table.title[-1] in '.?!' else '.'} {remark(table, paper, results)}"


def remark(table: Table, paper: Paper, results: dict[str, Results]) -> str:
    """The caption without the title."""
    panels = _panels(table, paper, results)
    shown = [panel for panel in panels if not panel.skipped]
    parts = []
    if shown:
        parts = [*REMARKS[table.kind](table, shown), _seeds(shown)]
    parts += [f"{panel.key} was not run: {panel.skipped}" for panel in panels if panel.skipped]
    if data := sorted({run["dataset"] for panel in shown for run in panel.results.runs()}):
        parts.append(f"Data: {', '.join(data)}")
    note = panels[0].results.note
    parts.append(f"Scale {note['scale']}: {note['scale_note']}")
    return " ".join(" ".join(f"{part}." for part in parts).split())


def _measure(panels: list[Panel]) -> str:
    """The figures' metric in words."""
    words = {panel.key: METRICS[panel.figure.metric].removesuffix(" (%)") for panel in panels}
    words = {key: text.replace("own-test accuracy", "the participants' mean own-test accuracy") for key, text in words.items()}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{text} ({key})" for key, text in words.items())


def _seeds(panels: list[Panel]) -> str:
    counts = sorted({len({run["seed"] for run in panel.results.runs()}) for panel in panels})
    if counts == [1]:
        return "One seed"
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Means over n = {number} seeds, ± one standard deviation"


def _remark_rounds(table: Table, panels: list[Panel]) -> list[str]:
    smooth = f", or in which its mean with the {table.smooth - 1} rounds before does" if table.smooth > 1 else ""
    parts = [f"Rounds: the first in which {_measure(panels)} reaches the target{smooth}"]
    parts.append(f"Saved: 1 - rounds / rounds of {table.baseline}, seed by seed")
    if panels[0].full:
        parts.append("Paper's rounds: " + ("as it prints them" if table.reported else "the first crossing of its curve"))
    parts.append(f"Final accuracy: mean of the last {FINAL} rounds")
    return [*parts, "MB: millions of bytes, down and up, of all participants of a round"]


def _remark_distance(table: Table, panels: list[Panel]) -> list[str]:
    smooth = f", both averaged over {table.smooth} rounds" if table.smooth > 1 else ""
    rounds = f", in the first {table.rounds} rounds" if table.rounds else ""
    parts = [f"Root mean squared difference of {_measure(panels)} from the paper's curve{smooth}{rounds}"]
    return parts if panels[0].full else [f"Scale {panels[0].scale} is not held against the paper's curves", *parts]


def _remark_convergence(table: Table, panels: list[Panel]) -> list[str]:
    parts = [f"Mean of the last {'round' if table.last == 1 else f'{table.last} rounds'}: {_measure(panels)}"]
    ends = {panel.key: min(_ends(panel), default=table.last) for panel in panels}
    parts += [f"{key} has {end} rounds only, all of which count" for key, end in ends.items() if end < table.last]
    return [*parts, "* is the best of its column, of the series that lost no run"]


def _ends(panel: Panel) -> list[int]:
    """The last round of every finished run."""
    return [curve[-1][0] for label in panel.results.labels for curve in panel.curves(label).values()]


def _remark_communication(table: Table, panels: list[Panel]) -> list[str]:
    smooth = f" as a mean of {table.smooth} rounds" if table.smooth > 1 else ""
    parts = ["Weights: of the model that is sent", "Bytes: of one participant in one round, mean over the rounds"]
    parts.append(f"More than {table.baseline}: down and up together")
    total = f"until {_measure(panels)} first reaches the target{smooth}"
    return [*parts, f"MB to target: millions of bytes, down and up, of all participants, {total}"]


REMARKS = {
    "rounds_to_target": _remark_rounds,
    "curve_distance": _remark_distance,
    "convergence": _remark_convergence,
    "communication": _remark_communication,
}


def write(frame: pd.DataFrame, folder: Path, key: str, remark: str = "") -> None:
    """`<key>.csv` and `<key>.tex`; the latter needs the booktabs package and starts with `remark` as a comment."""
    folder.mkdir(parents=True, exist_ok=True)
    frame = frame.fillna("")
    frame.to_csv(folder / f"{key}.csv", index=False, lineterminator="\n")
    (folder / f"{key}.tex").write_text(f"% {remark}\n" * bool(remark) + latex(frame), encoding="utf-8")


def latex(frame: pd.DataFrame, widths: str | None = None) -> str:
    """A booktabs tabular, special characters escaped; with `widths` a longtable of such columns, which may run over pages."""
    styled = frame.map(escape).rename(columns=escape).style.hide(axis="index")
    kind = {"column_format": widths, "environment": "longtable"} if widths else {"column_format": "l" * len(frame.columns)}
    return styled.to_latex(hrules=True, **kind)


def escape(text: str) -> str:
    """Plain text as LaTeX."""
    return "".join(MARKS.get(character, character) for character in str(text))
