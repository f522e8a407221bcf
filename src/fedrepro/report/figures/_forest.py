"""A forest plot of headline claims: our intervals at each scale beside what the papers report."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from fedrepro.report.figures import _layout

STYLES = {"paper": ("#000000", "s", 0.0), "small": ("#0072B2", "o", 0.22)}  # colour, marker, how much lower
OTHER_STYLE = ("#009E73", "^", 0.22)
REPORTED_STYLE: dict[str, Any] = {"marker": "D", "color": "#8a8a8a", "markersize": 5, "linestyle": "none"}
ROW = 0.3  # inches


def draw(findings: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Draw differences in points, one row for each claim, and write `path`.svg and `path`.png.

    Args:
        findings: method -> its `documents.findings.Finding`s; several scales of one claim share a row.
    """
    _layout.set_print_style()
    plt.rcParams.update({"svg.hashsalt": "fedrepro", "svg.fonttype": "path"})
    rows: dict[tuple[str, str], list[Any]] = {}
    for method, found in findings.items():
        for one in found:
            rows.setdefault((method, one.record["key"]), []).append(one)
    drawing, axes = plt.subplots(figsize=(_layout.PAGE_WIDTH, 0.8 + ROW * len(rows)), layout="constrained")
    labels = []
    for place, found in enumerate(rows.values()):
        record = found[0].record
        if record["reported_number"] is not None:
            axes.plot(100 * record["reported_number"], place, label="in the paper", zorder=2, **REPORTED_STYLE)
        for one in found:
            colour, marker, lower = STYLES.get(one.scale, OTHER_STYLE)
            values = {"xerr": 100 * one.record["half_width"], "color": colour, "marker": marker, "markersize": 4, "capsize": 2}
            axes.errorbar(100 * one.record["mean"], place + lower, label=f"ours, scale {one.scale}", zorder=3, **values)
        labels.append("\n".join(textwrap.wrap(record["claim"], 52)))
    axes.axvline(0, color="#8a8a8a", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel("difference (points of accuracy), mean with its 95 % interval")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    drawing.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    drawing.savefig(path.with_suffix(".png"), metadata={"Software": None})
    plt.close(drawing)
