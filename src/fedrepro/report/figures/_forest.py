"""A forest plot of headline claims: our intervals at each scale, next to what the papers report."""

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
    for method, method_findings in findings.items():
        for finding in method_findings:
            rows.setdefault((method, finding.record["key"]), []).append(finding)
    drawing, axes = plt.subplots(figsize=(_layout.PAGE_WIDTH, 0.8 + ROW * len(rows)), layout="constrained")
    labels = []
    for place, scales in enumerate(rows.values()):
        record = scales[0].record
        if record["reported_number"] is not None:
            axes.plot(100 * record["reported_number"], place, label="in the paper", zorder=2, **REPORTED_STYLE)
        for finding in scales:
            colour, marker, lower = STYLES.get(finding.scale, OTHER_STYLE)
            style = {"color": colour, "marker": marker, "markersize": 4, "capsize": 2, "zorder": 3}
            mean, half_width = 100 * finding.record["mean"], 100 * finding.record["half_width"]
            axes.errorbar(mean, place + lower, xerr=half_width, label=f"ours, scale {finding.scale}", **style)
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
