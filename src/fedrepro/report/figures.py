"""Figures at their printed size: curves of accuracy over rounds, and the heat map of a partition."""

import hashlib
import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from fedrepro.report.loading import Results
from fedrepro.report.spec import METRICS, Figure

COLUMN = 3.3  # inches, one column of a two-column page
# Okabe and Ito's colours, safe for the colour-blind; an algorithm keeps its own in every figure of every paper
STYLES = {
    "fedavg": ("#000000", "o"),
    "fedmmd": ("#D55E00", "s"),
    "l2": ("#0072B2", "^"),
    "fedprox": ("#009E73", "D"),
    "fedfusion": ("#CC79A7", "v"),
    "fedmax": ("#E69F00", "P"),
}
SPARE = (("#56B4E9", "X"), ("#8C6BB1", "<"), ("#7F7F7F", ">"))
LINES = ((), (4, 1.5), (1, 1))
MARKERS = "osD^vPX"  # of variants that are too many for dashes


def setup() -> None:
    """Print style: 8 pt text, fonts embedded as outlines that LaTeX accepts."""
    sns.set_theme(context="paper", style="ticks")
    text = dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 8) | dict.fromkeys(
        ("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 7
    )
    lengths = {"axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5}
    lengths |= {"ytick.major.size": 2.5, "xtick.major.pad": 2, "ytick.major.pad": 2}
    # the font that comes with matplotlib: what else is installed would change widths and bytes
    plt.rcParams.update(text | lengths | {"pdf.fonttype": 42, "savefig.dpi": 200, "font.family": "DejaVu Sans"})


def style(algorithm: str) -> tuple[str, str]:
    """Colour and marker of an algorithm; one that is not listed gets a spare pair that depends on its name alone."""
    index = int(hashlib.sha256(algorithm.encode()).hexdigest(), 16) % len(SPARE)
    return STYLES.get(algorithm, SPARE[index])


def looks(results: Results) -> dict[str, dict]:
    """Series -> how it is drawn. Variants of one algorithm share its colour and differ in dashes; many of them get shades."""
    algorithms = {label: series["algorithm"]["name"] for label, series in results.note["series"].items()}
    found = {}
    for name in dict.fromkeys(algorithms.values()):
        labels = [label for label, algorithm in algorithms.items() if algorithm == name]
        colour, marker = style(name)
        many = sns.color_palette("viridis", len(labels) + 1)[:-1]  # its last colour is too light on white
        shades = [colour] * len(labels) if len(labels) <= len(LINES) else many
        for index, (label, shade) in enumerate(zip(labels, shades, strict=True)):
            dashes = LINES[index % len(LINES)] if len(labels) <= len(LINES) else ()
            mark = marker if len(labels) <= len(LINES) else MARKERS[index % len(MARKERS)]
            found[label] = {"color": shade, "marker": mark, "dashes": dashes}
    return found


def curves(figure: Figure, results: Results, reported: dict) -> plt.Figure:
    """One panel: mean over seeds, band of one standard deviation, the paper's curves dotted, the target as a line."""
    drawing, axes = plt.subplots(figsize=(COLUMN, 0.8 if results.skipped else 2.7), layout="constrained")
    if results.skipped:
        explain(axes, results.skipped)
        return drawing
    drawn = looks(results)
    for index, label in enumerate(results.labels):
        seeds = results.curves(label, figure.metric)
        look = drawn[label]
        if not seeds:
            why = "diverged" if results.diverged(label) else "not measured"
            axes.plot([], [], color=look["color"], marker=look["marker"], markersize=3.5, label=f"{label}: {why}")
            continue
        table = pd.DataFrame([(round, 100 * value) for curve in seeds.values() for round, value in curve], columns=["x", "y"])
        lost = f" ({len(seeds)} of {len(results.runs(label))} seeds)" if results.diverged(label) else ""
        sns.lineplot(table, x="x", y="y", ax=axes, errorbar="sd", err_kws={"alpha": 0.15, "linewidth": 0}, color=look["color"],
                     linewidth=1.5 if index == 0 and len(drawn) <= 4 else 1, label=label + lost, legend=False)  # fmt: skip
        line = axes.lines[-1]
        line.set_dashes(look["dashes"] or (None, None))
        step = max(1, len(line.get_xdata()) // 8)
        every = (index * step // len(results.labels), step)  # side by side, so that equal curves show all their markers
        line.set(marker=look["marker"], markersize=3.5, markeredgewidth=0.4, markevery=every)
    _paper(axes, figure, results, reported, drawn)
    _frame(axes, figure, results)
    return drawing


def _paper(axes: Axes, figure: Figure, results: Results, reported: dict, drawn: dict) -> None:
    """The paper's digitised curves, behind ours; only where the scale allows to compare."""
    if results.compare != "full":
        return
    last = max(int(row["round"]) for row in results.rows)
    shown: dict[str, list[str]] = {}
    for label, key in figure.reported.items():
        shown.setdefault(key, []).append(label)
    for key, labels in shown.items():
        points = [(round, 100 * value) for round, value in reported[key] if round <= last]
        colour = drawn[labels[0]]["color"] if len(labels) == 1 else "0.3"  # one curve for all: nobody's colour
        rounds, values = [point[0] for point in points], [point[1] for point in points]
        axes.plot(rounds, values, ":", color=colour, linewidth=0.9, alpha=0.8, zorder=1)
    if shown:
        axes.plot([], [], ":", color="0.3", linewidth=0.9, label="in the paper")


def _frame(axes: Axes, figure: Figure, results: Results) -> None:
    target = figure.target.get(results.note["scale"])
    if target is not None:
        axes.axhline(100 * target, color="0.5", linewidth=0.6, zorder=0)
        place = {"xy": (1, 100 * target), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(f"{100 * target:g} %", **place, xytext=(2, 0), fontsize=6, color="0.4", ha="left", va="center")
    if results.compare != "full":
        axes.text(0.99, 0.02, f"scale {results.note['scale']}", transform=axes.transAxes, ha="right", fontsize=6, color="0.4")
    axes.set(xlabel="round of communication", ylabel=METRICS[figure.metric], xlim=(0, None))
    low, high = figure.shown.get(results.note["scale"], (None, None))
    axes.set_ylim(100 * low if low is not None else None, 100.5 * high if high else min(axes.get_ylim()[1], 100.5))
    labels = axes.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, labels)) > 12 or len(labels) == 4 else min(len(labels), 3)
    axes.figure.legend(frameon=False, handlelength=2.2, columnspacing=1.2, ncols=columns, loc="outside upper center")
    axes.grid(axis="y", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
    sns.despine(ax=axes)


def explain(axes: Axes, reason: str) -> None:
    """In place of a drawing: why there is none."""
    axes.text(0.5, 0.5, "not run:\n" + textwrap.fill(reason, 50), ha="center", va="center", fontsize=8, color="0.3")
    axes.set_axis_off()


def save(drawing: plt.Figure, path: Path) -> None:
    """`path`.pdf and `path`.png, without dates, so that the same numbers give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None, "ModDate": None})
    drawing.savefig(path.with_suffix(".png"), metadata={"Software": None})
    plt.close(drawing)


def caption(figure: Figure, results: Results) -> str:
    """What a reader must know beside the picture: seeds, band, data, target, scale."""
    if results.skipped:
        return f"{figure.title}. Not run at this scale: {results.skipped}."
    runs = results.runs()
    seeds = sorted({run["seed"] for run in runs})
    data = ", ".join(sorted({run["dataset"] for run in runs}))
    spread = f"mean over {len(seeds)} seeds, band of one standard deviation" if len(seeds) > 1 else "one seed, so no band"
    measure = METRICS[figure.metric].removesuffix(" (%)")
    step = results.note["training"]["evaluate_every"]
    every = "round" if step == 1 else f"{step} rounds"
    mine = figure.metric == "test_accuracy"
    measured = f"Global model, {measure} after" if mine else f"Mean over the participants, {measure}, in"
    text = f"{figure.title}. {measured} every {every}; {spread}."
    text += "".join(f" {label}: {text}, not shown." for label in results.labels for text in results.diverged(label))
    text += f" Data: {data}."
    if cut := figure.shown.get(results.note["scale"]):
        text += f" Only {100 * cut[0]:g} to {100 * cut[1]:g} % is shown."
    if results.compare == "full" and figure.reported:
        text += " Dotted: the paper's curves, read from its PDF."
    precision = ", ".join(sorted({f"{run['precision']}, {run['executor']} executor" for run in runs}))
    return f"{text} Scale {results.note['scale']}: {results.note['scale_note']}. {precision}."
