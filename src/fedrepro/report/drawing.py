"""Figures at their printed size: axes for a grid of panels, what stands around them, and the files."""

import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes

from fedrepro.report.evidence import Evidence
from fedrepro.report.figures.base import Figure

COLUMN, PAGE = 3.3, 7.0  # inches: one column of a two-column page, and both


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


def compose(figure: Figure, evidence: Evidence) -> plt.Figure:
    """All panels of a figure; one that was not run says why in its place."""
    grid = figure.grid(evidence)
    rows, columns = len(grid), max(map(len, grid))
    skipped = all(part.skipped for row in grid for part in row)
    drawing, axes = plt.subplots(
        rows, columns, figsize=_size(figure, rows, columns, skipped), squeeze=False, layout="constrained"
    )
    for parts, line in zip(grid, axes, strict=True):
        for place, panel in enumerate(line):
            if place >= len(parts):
                panel.set_axis_off()
            elif parts[place].skipped:
                explain(panel, parts[place].skipped, 50 if columns == 1 else 60 // columns)
            else:
                parts[place].draw(panel)
                sns.despine(ax=panel)
            if place < len(parts) and parts[place].title:
                panel.set_title(parts[place].title, fontsize=7)
    _share(axes)
    if not skipped:
        _legend(drawing, 1 if columns == 1 else 2)
    return drawing


def _size(figure: Figure, rows: int, columns: int, skipped: bool) -> tuple[float, float]:
    if columns == 1 and rows == 1:
        return COLUMN, 0.8 if skipped else figure.height
    width = COLUMN if columns == 1 else PAGE
    return width, 0.5 + rows * max(1.5, min(2.3, 0.85 * width / columns))


def _share(axes) -> None:
    """What neighbours have in common is said once: left of a row, below a column."""
    for line in axes:
        for panel in line[1:]:
            if panel.get_ylabel() == line[0].get_ylabel():
                panel.set_ylabel("")
    for line in axes[:-1]:
        for panel, last in zip(line, axes[-1], strict=True):
            if panel.get_xlabel() == last.get_xlabel():
                panel.set_xlabel("")


def _legend(drawing: plt.Figure, width: int) -> None:
    """Every name once, above the panels."""
    found: dict = {}
    for panel in drawing.axes:
        if panel.get_legend() is None:
            handles, labels = panel.get_legend_handles_labels()
            found = dict(zip(labels, handles, strict=True)) | found
    if not found:
        return
    many = 2 if max(map(len, found)) > 12 or len(found) == 4 else min(len(found), 3)
    columns = many if width == 1 else min(len(found), 3 if max(map(len, found)) > 24 else 6)
    look = {"frameon": False, "handlelength": 2.2, "columnspacing": 1.2, "ncols": columns}
    drawing.legend(found.values(), found.keys(), loc="outside upper center", **look)


def explain(axes: Axes, reason: str, width: int = 50) -> None:
    """In place of a drawing: why there is none."""
    axes.text(0.5, 0.5, "not run:\n" + textwrap.fill(reason, width), ha="center", va="center", fontsize=8, color="0.3")
    axes.set_axis_off()


def save(drawing: plt.Figure, path: Path) -> None:
    """`path`.pdf and `path`.png, without dates, so that the same numbers give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None, "ModDate": None})
    drawing.savefig(path.with_suffix(".png"), metadata={"Software": None})
    plt.close(drawing)
