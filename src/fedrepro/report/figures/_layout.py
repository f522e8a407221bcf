"""Layout of figures at their printed size: axes for a grid of panels, titles, legend, and the
files."""

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator

from fedrepro.report.figures._style import PAPER_LABEL, TARGET_LABEL, UNFINISHED_SUFFIX
from fedrepro.report.figures.base import Figure, FigurePanel
from fedrepro.report.inputs.panel import PaperData

COLUMN_WIDTH, PAGE_WIDTH = 3.17, 6.5  # inches: one column of an article with two columns, and both
MAX_SHARED_LENGTH = 1.3  # of an axis that panels share, as a multiple of the shortest panel's axis
LETTERS = 18  # of 6 pt in an inch
LEGEND_LINE = 0.15  # inches; the first two lines of a legend are part of a figure's height


def set_print_style() -> None:
    """Set matplotlib's options for print: 8 pt text, and fonts embedded as outlines that LaTeX
    accepts."""
    matplotlib.rcdefaults()  # a user's matplotlibrc would change sizes, colours and bytes
    text: dict[str, Any] = dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 8)
    text |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 7)
    lengths = {
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
    }
    lengths |= {"ytick.major.size": 2.5, "xtick.major.pad": 2, "ytick.major.pad": 2}
    lengths |= {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.solid_capstyle": "round",
        "hatch.linewidth": 0.6,
    }
    # the font that comes with matplotlib: another installed font would change widths and bytes
    files = {"pdf.fonttype": 42, "savefig.dpi": 200, "font.family": "DejaVu Sans"}
    files |= {"svg.hashsalt": "fedrepro", "svg.fonttype": "none"}
    sns.set_theme(context="paper", style="ticks", rc=text | lengths | files)


def new_figure(width: float, height: float) -> MatplotlibFigure:
    """Return an empty figure of a size in inches, of which pyplot and its backend know nothing."""
    drawing = MatplotlibFigure((width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def compose(figure: Figure, evidence: PaperData) -> MatplotlibFigure:
    """Draw all panels of a figure; a panel without results shows the reason instead."""
    grid = figure.grid(evidence)
    rows, columns = len(grid), max(map(len, grid))
    drawing = new_figure(*_size(figure, rows, columns))
    axes = drawing.subplots(rows, columns, squeeze=False)
    for panels, row_axes in zip(grid, axes, strict=True):
        for panel, panel_axes in zip(panels, row_axes, strict=False):
            _draw_panel(panel_axes, panel, columns)
        for empty_axes in row_axes[len(panels) :]:
            empty_axes.set_axis_off()
    share_labels(axes)
    if not all(panel.missing_reason for panels in grid for panel in panels):
        if _has_ambiguous_styles(drawing):
            for panel_axes in (panel for panel in drawing.axes if panel.axison):
                panel_axes.legend(
                    fontsize=6, loc="lower right", handlelength=1.8, framealpha=0.8, edgecolor="0.9"
                )
        else:
            add_legend(drawing, 1 if columns == 1 else 2)
        _add_scale(drawing, figure, evidence)
    disable_math(drawing)
    return drawing


def _draw_panel(axes: Axes, panel: FigurePanel, columns: int) -> None:
    width = COLUMN_WIDTH if columns == 1 else PAGE_WIDTH / columns
    if panel.missing_reason:
        characters = round(15 * width if columns == 1 else 8.6 * width)
        write_reason(axes, "not shown:\n" + textwrap.fill(str(panel.missing_reason), characters))
    else:
        panel.draw(axes)
        axes.set_ylabel(textwrap.fill(axes.get_ylabel(), 26))
        axes.set_xlabel(textwrap.fill(axes.get_xlabel(), round(11 * width)))
        if columns > 2 and isinstance(axes.xaxis.get_major_locator(), AutoLocator):
            axes.locator_params(axis="x", nbins=4)
    if panel.title:
        axes.set_title(textwrap.fill(panel.title, round(17 * width)), fontsize=7)


def _add_scale(drawing: MatplotlibFigure, figure: Figure, evidence: PaperData) -> None:
    """Write below the panels the scale's name and what was run, unless it is the paper's own
    scale."""
    if figure.first_results(evidence).compare != "full":
        text = evidence.scale_sentence(figure.sources(evidence.figures)).rstrip(".")
        lines = textwrap.fill(text, round(LETTERS * drawing.get_figwidth()))
        drawing.supxlabel(lines[0].lower() + lines[1:], x=0.99, ha="right", fontsize=6, color="0.4")


def _size(figure: Figure, rows: int, columns: int) -> tuple[float, float]:
    if columns == 1 and rows == 1:
        return COLUMN_WIDTH, figure.height
    width = COLUMN_WIDTH if columns == 1 else PAGE_WIDTH
    return width, 0.5 + rows * max(1.5, min(2.3, 0.85 * width / columns))


def share_labels(axes: np.ndarray) -> None:
    """Print a label that neighbouring panels share only once: left of a row, below a column."""
    for row in axes:
        first, *others = [panel for panel in row if panel.axison] or row
        _share_scale([first, *others])
        same_axis = row[0].axison and all(
            _vertical_axis(panel) == _vertical_axis(first) for panel in others
        )
        for panel in others:
            if panel.get_ylabel() == first.get_ylabel():
                panel.set_ylabel("")
            if same_axis:
                panel.tick_params(labelleft=False)
    for row in axes[:-1]:
        for panel, lowest in zip(row, axes[-1], strict=True):
            if panel.get_xlabel() == lowest.get_xlabel():
                panel.set_xlabel("")


def _share_scale(axes: Sequence[Axes]) -> None:
    """Give panels with the same label and nearly the same vertical scale one scale."""
    lows, highs = zip(*(panel.get_ylim() for panel in axes), strict=True)
    same_label = len({(panel.get_ylabel(), panel.get_yscale()) for panel in axes}) == 1
    shortest = min(high - low for low, high in zip(lows, highs, strict=True))
    if same_label and max(highs) - min(lows) <= MAX_SHARED_LENGTH * shortest:
        for panel in axes:
            panel.set_ylim(min(lows), max(highs))


def _vertical_axis(axes: Axes) -> tuple:
    return (
        axes.get_ylabel(),
        axes.get_ylim(),
        [label.get_text() for label in axes.get_yticklabels()],
    )


def _has_ambiguous_styles(drawing: MatplotlibFigure) -> bool:
    """Return whether a colour means one line in a panel and another one elsewhere, so that one
    legend could not be read."""
    names: dict[Any, set[frozenset[str]]] = {}
    for panel in drawing.axes:
        own: dict[Any, set[str]] = {}
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            if isinstance(handle, Line2D):
                own.setdefault(handle.get_color(), set()).add(label.removesuffix(UNFINISHED_SUFFIX))
        for colour, labels in own.items():
            names.setdefault(colour, set()).add(frozenset(labels))
    return any(not one & other for groups in names.values() for one in groups for other in groups)


def add_legend(drawing: MatplotlibFigure, width: int) -> None:
    """Add a legend above the panels, on a page of `width` columns, with each name once and the
    paper's last.

    A series that is unfinished in one panel but drawn in another is named once; the caption says in
    which panel it is missing.
    """
    handles: dict[str, Any] = {}
    for panel in drawing.axes:
        panel_handles, labels = panel.get_legend_handles_labels()
        by_label = dict(zip(labels, panel_handles, strict=True))
        handles |= {label: handle for label, handle in by_label.items() if label not in handles}
    if not handles:
        return
    finished_names = {
        name: handle.get_gid() for name, handle in handles.items() if isinstance(handle, Artist)
    }
    names = [name for name in handles if finished_names.get(name) not in handles]
    names.sort(key=(PAPER_LABEL, TARGET_LABEL).__contains__)
    long_name, columns_if_long, columns_if_short = (12, 2, 3) if width == 1 else (24, 3, 6)
    max_columns = columns_if_long if max(map(len, names)) > long_name else columns_if_short
    options: dict[str, Any] = {
        "frameon": False,
        "handlelength": 2.2,
        "columnspacing": 1.2,
        "loc": "outside upper center",
    }
    while True:
        rows = math.ceil(len(names) / max_columns)
        columns = math.ceil(len(names) / rows)
        legend = drawing.legend([handles[name] for name in names], names, ncols=columns, **options)
        disable_math(legend)  # before it is measured
        if columns == 1 or legend.get_window_extent().width <= drawing.bbox.width:
            break
        legend.remove()
        max_columns = columns - 1
    drawing.set_figheight(drawing.get_figheight() + LEGEND_LINE * max(0, rows - 2))


def write_reason(axes: Axes, reason: str) -> None:
    """Write the reason why there is no drawing in its place."""
    axes.text(0.5, 0.5, reason, ha="center", va="center", fontsize=8, color="0.3")
    axes.set_axis_off()


def disable_math(drawing: MatplotlibFigure | Legend) -> None:
    """Draw dollar signs in names as they are, not as mathematics, except in powers of ten on a
    logarithmic axis."""
    powers: set[int] = set()
    for panel in drawing.findobj(Axes):
        for axis in (panel.xaxis, panel.yaxis):
            if axis.get_scale() == "log":
                powers |= {id(text) for text in axis.findobj(Text) if text is not axis.label}
    for text in drawing.findobj(Text):
        if id(text) not in powers:
            text.set_parse_math(False)


def svg(drawing: MatplotlibFigure, transparent: bool = False) -> str:
    """Return a drawing as SVG whose text is text, in another sans-serif font where the one of the
    layout is missing."""
    file = io.StringIO()
    drawing.savefig(
        file,
        format="svg",
        transparent=transparent,
        metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
    )
    text = file.getvalue().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return text[text.index("<svg") :]


def save(drawing: MatplotlibFigure, path: Path) -> None:
    """Write `<path>.svg`, `.pdf` and `.png`, without dates, so that the same numbers give the same
    bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = drawing.get_layout_engine()
    assert engine is not None  # `compose` asks for a layout
    engine.execute(drawing)
    drawing.set_layout_engine("none")  # the layout above is for all files
    path.with_suffix(".svg").write_text(svg(drawing), encoding="utf-8")
    drawing.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None, "ModDate": None})
    drawing.savefig(path.with_suffix(".png"), metadata={"Software": None})
