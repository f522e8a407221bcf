"""Tables as data frames of text, and the files that they become: .csv and .tex (booktabs)."""

import math
from pathlib import Path

import pandas as pd

from fedrepro.metrics import Estimate, distance, estimate, mean_last, rounds_to
from fedrepro.report.loading import Results
from fedrepro.report.spec import Figure, Paper, Table

NONE = "-"
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
    rows = []
    for key in table.figures:
        figure = paper.figures[key]
        rows += KINDS[table.kind](key, figure, table, results[figure.experiment], curves)
    return pd.DataFrame(_nearest(rows) if table.kind == "curve_distance" else rows)


def _rounds_to_target(key: str, figure: Figure, table: Table, results: Results, curves: dict) -> list[dict]:
    target = figure.target.get(results.note["scale"])
    if results.skipped or target is None:
        return [{"Panel": key, "Series": f"not run: {results.skipped}" if results.skipped else "no target at this scale"}]
    rows = []
    for label in results.labels:
        seeds = results.curves(label, figure.metric)
        row = {"Panel": key, "Series": label, "Target (%)": f"{100 * target:g}"}
        row["Rounds"] = _rounds(seeds, target, 1)
        row[f"Rounds, mean of {table.smooth}"] = _rounds(seeds, target, table.smooth)
        row["Saved vs " + table.baseline] = _saved(label, table.baseline, results, figure.metric, target)
        row["Paper's rounds"] = _reported(figure, label, curves, target, results)
        row["Final accuracy (%)"] = _percent([mean_last(curve, 5) for curve in seeds.values()])
        row["MB per round"] = f"{_megabytes(results, label):.3g}"
        row["Seeds"] = str(len(seeds)) + "".join(f"; {text}" for text in results.diverged(label))
        rows.append(row)
    return rows


def _curve_distance(key: str, figure: Figure, table: Table, results: Results, curves: dict) -> list[dict]:
    """Every series that has a curve in the paper, with its root mean squared distance from it, in points of accuracy."""
    if results.skipped:
        return [{"Panel": key, "Series": f"not run: {results.skipped}"}]
    rows = []
    for label, name in figure.reported.items():
        reported = [point for point in curves[name] if point[0] <= (table.rounds or math.inf)]
        seeds = results.curves(label, figure.metric).values()
        values = [distance(curve, reported, table.smooth) for curve in seeds]
        values = [value for value in values if value is not None]  # None: no round in common
        row = {"Panel": key, "Series": label, "Paper's curve": name}
        row["Distance (points)"] = _percent(values) if values else "; ".join(results.diverged(label)) or NONE
        rows.append(row | {"Seeds": str(len(values)), "mean": sum(values) / len(values) if values else math.inf})
    return rows


def _nearest(rows: list[dict]) -> list[dict]:
    """Mark, among the rows that compare with the same curve of the paper, the nearest."""
    for row in rows:
        rivals = [other["mean"] for other in rows if "mean" in other and other["Paper's curve"] == row.get("Paper's curve")]
        row[""] = "nearest" if len(rivals) > 1 and row["mean"] == min(rivals) < math.inf else ""
    return [{name: value for name, value in row.items() if name != "mean"} for row in rows]


KINDS = {"rounds_to_target": _rounds_to_target, "curve_distance": _curve_distance}


def _rounds(seeds: dict, target: float, smooth: int) -> str:
    reached = [rounds_to(curve, target, smooth) for curve in seeds.values()]
    known = [round for round in reached if round is not None]
    if not known:
        return "never" if reached else NONE
    if len(known) < len(reached):
        return f"{sum(known) / len(known):.1f} ({len(known)} of {len(reached)} seeds)"
    return _spread(estimate([float(round) for round in known]), 1 if len(known) > 1 else 0)


def _saved(label: str, baseline: str, results: Results, metric: str, target: float) -> str:
    """Mean over seeds of the paired saving; only where every seed of both series arrives."""
    if label == baseline or results.diverged(label) or results.diverged(baseline):
        return NONE
    ours, theirs = results.curves(label, metric), results.curves(baseline, metric)
    pairs = [(rounds_to(curve, target), rounds_to(theirs[seed], target)) for seed, curve in ours.items() if seed in theirs]
    if not pairs or any(None in pair for pair in pairs):
        return NONE
    return f"{_spread(estimate([100 * (1 - mine / base) for mine, base in pairs]), 1)} %"


def _reported(figure: Figure, label: str, curves: dict, target: float, results: Results) -> str:
    """From the paper's curve, and only where our numbers may be held against it."""
    if results.compare != "full" or label not in figure.reported:
        return NONE
    round = rounds_to(curves[figure.reported[label]], target)
    return "never" if round is None else f"{round:g}"


def _megabytes(results: Results, label: str) -> float:
    """Sent down and up in a round by all participants together, in 10^6 bytes."""
    runs = results.runs(label)
    return sum((run["bytes_down"] + run["bytes_up"]) / max(run["rounds"], 1) for run in runs) / len(runs) / 1e6


def _percent(values: list[float]) -> str:
    return _spread(estimate([100 * value for value in values]), 2) if values else NONE


def _spread(found: Estimate, digits: int) -> str:
    return f"{found.mean:z.{digits}f}" + ("" if found.std is None else f" ± {found.std:.{digits}f}")


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
