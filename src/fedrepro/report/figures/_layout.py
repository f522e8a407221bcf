"""Figures at their printed size: axes for a grid of panels, what stands around them, and the files."""

import math
import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator

from fedrepro.report.figures._style import PAPER_LABEL, TARGET_LABEL
from fedrepro.report.figures.base import Figure, FigurePanel
from fedrepro.report.inputs.panel import PaperData

COLUMN_WIDTH, PAGE_WIDTH = 3.3, 7.0  # inches: one column of a two-column page, and both
MAX_SHARED_LENGTH = 1.3  # so much longer may a common axis be
LEGEND_LINE = 0.15  # inches, of a legend, whose first two are part of a figure's height


def set_print_style() -> None:
    """Print style: 8 pt text, fonts embedded as outlines that LaTeX accepts."""
    matplotlib.rcdefaults()  # a user's matplotlibrc would change sizes, colours and bytes
    sns.set_theme(context="paper", style="ticks")
    text = dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 8) | dict.fromkeys(
        ("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 7
    )
    lengths = {"axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5}
    lengths |= {"ytick.major.size": 2.5, "xtick.major.pad": 2, "ytick.major.pad": 2}
    lengths |= {"axes.spines.top": False, "axes.spines.right": False, "lines.solid_capstyle": "round", "hatch.linewidth": 0.6}
    # the font that comes with matplotlib: what else is installed would change widths and bytes
    plt.rcParams.update(text | lengths | {"pdf.fonttype": 42, "savefig.dpi": 200, "font.family": "DejaVu Sans"})


def compose(figure: Figure, evidence: PaperData) -> plt.Figure:
    """All panels of a figure; one that was not run says why in its place."""
    grid = figure.grid(evidence)
    rows, columns = len(grid), max(map(len, grid))
    skipped = all(part.missing_reason for row in grid for part in row)
    size = _size(figure, rows, columns)
    drawing, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for parts, line in zip(grid, axes, strict=True):
        for place, panel in enumerate(line):
            if place < len(parts):
                _panel(panel, parts[place], columns)
            else:
                panel.set_axis_off()
    share_labels(axes)
    if not skipped:
        add_legend(drawing, 1 if columns == 1 else 2)
        _scale(drawing, figure, evidence)
    disable_math(drawing)
    return drawing


def _panel(axes: Axes, part: FigurePanel, columns: int) -> None:
    width = COLUMN_WIDTH if columns == 1 else PAGE_WIDTH / columns
    if part.missing_reason:
        write_reason(axes, _reason(part, columns))
    else:
        part.draw(axes)
        axes.set_ylabel(textwrap.fill(axes.get_ylabel(), 26))
        axes.set_xlabel(textwrap.fill(axes.get_xlabel(), round(11 * width)))
        if columns > 2 and isinstance(axes.xaxis.get_major_locator(), AutoLocator):
            axes.locator_params(axis="x", nbins=4)
    if part.title:
        axes.set_title(textwrap.fill(part.title, round(17 * width)), fontsize=7)


def _reason(part: FigurePanel, columns: int) -> str:
    """Why a panel is not drawn, in its place."""
    width = 15 * COLUMN_WIDTH if columns == 1 else 8.6 * PAGE_WIDTH / columns
    return "not shown:\n" + textwrap.fill(str(part.missing_reason), round(width))


def _scale(drawing: plt.Figure, figure: Figure, evidence: PaperData) -> None:
    """Below the panels, which scale it is, unless that is the paper's own."""
    results = figure.first_results(evidence)
    if results.compare != "full":
        drawing.supxlabel(f"scale {results.note['scale']}", x=0.99, ha="right", fontsize=6, color="0.4")


def _size(figure: Figure, rows: int, columns: int) -> tuple[float, float]:
    if columns == 1 and rows == 1:
        return COLUMN_WIDTH, figure.height
    width = COLUMN_WIDTH if columns == 1 else PAGE_WIDTH
    return width, 0.5 + rows * max(1.5, min(2.3, 0.85 * width / columns))


def share_labels(axes) -> None:
    """What neighbours have in common is said once: left of a row, below a column."""
    for line in axes:
        first, *others = [panel for panel in line if panel.axison] or line
        _level([first, *others])
        alike = all(_ruled(panel) == _ruled(first) for panel in others) and line[0].axison
        for panel in others:
            if panel.get_ylabel() == first.get_ylabel():
                panel.set_ylabel("")
            if alike and first.axison:
                panel.tick_params(labelleft=False)
    for line in axes[:-1]:
        for panel, last in zip(line, axes[-1], strict=True):
            if panel.get_xlabel() == last.get_xlabel():
                panel.set_xlabel("")


def _level(axes: list[Axes]) -> None:
    """One scale for panels of one thing whose scales are nearly the same."""
    lows, highs = zip(*(panel.get_ylim() for panel in axes), strict=True)
    alike = len({(panel.get_ylabel(), panel.get_yscale()) for panel in axes}) == 1
    if alike and max(highs) - min(lows) <= MAX_SHARED_LENGTH * min(high - low for low, high in zip(lows, highs, strict=True)):
        for panel in axes:
            panel.set_ylim(min(lows), max(highs))


def _ruled(axes: Axes) -> tuple:
    """Its vertical axis."""
    return axes.get_ylabel(), axes.get_ylim(), [label.get_text() for label in axes.get_yticklabels()]


def add_legend(drawing: plt.Figure, width: int) -> None:
    """Every name once, above the panels; series before what they are held against. What one panel has, no other waits for: the
    caption says which does."""
    found: dict = {}
    for panel in drawing.axes:
        handles, labels = panel.get_legend_handles_labels()
        found |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in found}
    if not found:
        return
    waits = {name: handle.get_gid() for name, handle in found.items() if isinstance(handle, Artist)}
    names = [name for name in found if waits.get(name) not in found]
    names.sort(key=(PAPER_LABEL, TARGET_LABEL).__contains__)
    longest = max(map(len, names))
    most = (2 if longest > 12 else 3) if width == 1 else 3 if longest > 24 else 6
    look = {"frameon": False, "handlelength": 2.2, "columnspacing": 1.2, "loc": "outside upper center"}
    while True:
        rows = math.ceil(len(names) / most)
        columns = math.ceil(len(names) / rows)
        legend = drawing.legend([found[name] for name in names], names, ncols=columns, **look)
        disable_math(legend)  # before it is measured
        if columns == 1 or legend.get_window_extent().width <= drawing.bbox.width:
            break
        legend.remove()
        most = columns - 1
    drawing.set_figheight(drawing.get_figheight() + LEGEND_LINE * max(0, rows - 2))


def write_reason(axes: Axes, reason: str) -> None:
    """In place of a drawing: why there is none."""
    axes.text(0.5, 0.5, reason, ha="center", va="center", fontsize=8, color="0.3")
    axes.set_axis_off()


def disable_math(drawing: plt.Figure | Legend) -> None:
    """Draw a dollar in a name as a dollar, not as mathematics; powers of ten on a logarithmic axis stay what they are."""
    panels = drawing.findobj(Axes)
    axes = [axis for panel in panels for axis in (panel.xaxis, panel.yaxis) if axis.get_scale() == "log"]
    powers = {id(text) for axis in axes for text in axis.findobj(Text) if text is not axis.label}
    for text in drawing.findobj(Text):
        if id(text) not in powers:
            text.set_parse_math(False)


def save(drawing: plt.Figure, path: Path) -> None:
    """`path`.pdf and `path`.png, without dates, so that the same numbers give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.get_layout_engine().execute(drawing)
    drawing.set_layout_engine("none")  # once for both files
    drawing.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None, "ModDate": None})
    drawing.savefig(path.with_suffix(".png"), metadata={"Software": None})
    plt.close(drawing)
