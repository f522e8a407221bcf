"""Bars: how many epochs of local training new clients need until their own-test accuracy is at the target."""

import csv
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes

from fedrepro.metrics import Estimate, estimate
from fedrepro.report.figures import COLUMN, explain, looks
from fedrepro.report.loading import Results
from fedrepro.report.spec import Figure

COMPARED, NONE = ("Paper's mean", "Paper's low", "Paper's high"), ("", "", "")
OPEN = "////"  # the hatch of a mean over some of the clients only


def summary(results: Results, label: str) -> tuple[Estimate | None, int, int]:
    """Mean and standard deviation of the epochs over the new clients of all seeds that arrive, how many do, and of how many."""
    epochs = [epoch for clients in results.arrivals(label).values() for epoch in clients.values()]
    known = [float(epoch) for epoch in epochs if epoch is not None]
    return (estimate(known) if known else None), len(known), len(epochs)


def draw(figure: Figure, results: Results) -> plt.Figure:
    """One bar per series: mean over new clients, whisker of one standard deviation; beside it what the paper reports."""
    drawing, axes = plt.subplots(figsize=(COLUMN, 0.8 if results.skipped else 2.4), layout="constrained")
    if results.skipped:
        explain(axes, results.skipped)
        return drawing
    colours, compared = looks(results), results.compare == "full"
    for place, label in enumerate(results.labels):
        _bar(axes, place, results, label, colours[label]["color"])
        if compared and label in figure.bars:
            mean, low, high = figure.bars[label]
            axes.errorbar([place + 0.38], [mean], [[mean - low], [high - mean]], fmt="D", color="0.35", markersize=3.5,
                          markerfacecolor="white", linewidth=0.9, capsize=2)  # fmt: skip
    if compared and figure.bars:
        axes.errorbar([], [], [], fmt="D", color="0.35", markersize=3.5, markerfacecolor="white", label="in the paper")
        axes.legend(frameon=False, loc="upper right")
    if not compared:
        axes.text(0.99, 0.98, f"scale {results.note['scale']}", transform=axes.transAxes, ha="right", va="top", fontsize=6,
                  color="0.4")  # fmt: skip
    target = f"{100 * results.note['settings']['target']:g} %"
    axes.set(ylabel=f"epochs to {target} own-test accuracy", xlim=(-0.6, len(results.labels) - 0.4), ylim=(0, None))
    axes.set_xticks(range(len(results.labels)), [label.replace(" ", "\n") for label in results.labels])
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    axes.grid(axis="y", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
    sns.despine(ax=axes)
    return drawing


def _bar(axes: Axes, place: int, results: Results, label: str, colour: Any) -> None:
    found, arrived, clients = summary(results, label)
    if found is not None:
        look = {"hatch": OPEN, "fill": False, "edgecolor": colour} if arrived < clients else {"color": colour}
        axes.bar(
            [place],
            [found.mean],
            0.5,
            yerr=found.std,
            capsize=2.5,
            error_kw={"linewidth": 0.9, "ecolor": "0.5"},
            linewidth=0.8,
            **look,
        )
    if arrived < clients or not clients:
        text = f"{arrived} of {clients}\narrive" if clients else "diverged"
        top = 0 if found is None else found.mean + (found.std or 0)
        axes.annotate(text, (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=6, color="0.3")


def write(figure: Figure, results: Results, path: Path) -> None:
    """The numbers behind the bars, a row per series; what is not known is empty."""
    columns = ["Series", "Mean epochs", "Standard deviation", "New clients", "Arrived", *COMPARED]
    rows = []
    for label in results.labels:
        found, arrived, clients = summary(results, label)
        reported = figure.bars.get(label, NONE) if results.compare == "full" else NONE
        spread = "" if found is None or found.std is None else f"{found.std:.2f}"
        rows.append([label, "" if found is None else f"{found.mean:.2f}", spread, clients, arrived, *reported])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


def caption(figure: Figure, results: Results) -> str:
    """What was measured and how, that the protocol is ours, and which clients do not arrive."""
    if results.skipped:
        return f"{figure.title}. Not run at this scale: {results.skipped}."
    settings, runs = results.note["settings"], results.runs()
    seeds = len({run["seed"] for run in runs})
    text = f"{figure.title}. Epochs of local training until the own-test accuracy first is at {100 * settings['target']:g} %; "
    text += f"mean and standard deviation over {settings['clients']} new clients "
    text += ("of one run." if seeds == 1 else f"of each of {seeds} seeds' runs.") + _protocol(settings)
    for label in results.labels:
        text += "".join(f" {label}: {told}, not shown." for told in results.diverged(label))
        _, arrived, clients = summary(results, label)
        if arrived < clients:
            text += f" {label}: {clients - arrived} of {clients} new clients are not there within {settings['epochs']} epochs"
            text += "; the mean (hatched) is over the others, so too low." if arrived else "."
    if results.compare == "full" and figure.bars:
        text += (
            " Diamonds: the paper's means and ranges, read from its figure (its axis says rounds, its caption local epochs)."
        )
    data = ", ".join(sorted({run["dataset"] for run in runs}))
    return f"{text} Data: {data}. Scale {results.note['scale']}: {results.note['scale_note']}."


def _protocol(settings: dict[str, Any]) -> str:
    held = f"{settings['images']} training images" if settings["images"] else "as many training images as a client of the run"
    return (
        " The paper does not say how it measured this, the protocol is our reading: a new client has a fresh order of pixels, "
        f"{held}, drawn at random, and an equal share of its test images; it receives the final global model (of FedFusion "
        "with its fusion, the extractor also as the frozen one) and trains as the run's clients do, at the learning rate of "
        "the first round and with one optimiser for all epochs."
    )
