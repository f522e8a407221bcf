"""Shared styles of figures: categories, bars, grid lines, and the paper's numbers."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.palette import PALETTE, SeriesStyle, shades
from fedrepro.report.statistics import Estimate
from fedrepro.runs.reasons import UNFINISHED

# Paul Tol's muted scheme with grey in place of its palest colour: ten colours that are safe for the
# colour-blind
MUTED_COLOURS = (
    "#332288",
    "#88CCEE",
    "#44AA99",
    "#117733",
    "#999933",
    "#DDCC77",
    "#CC6677",
    "#882255",
    "#AA4499",
    "#777777",
)
# its numbers
PAPER_MARKER: dict[str, Any] = {
    "marker": "D",
    "color": "0.45",
    "markersize": 3.5,
    "markerfacecolor": "white",
}
# of the paper's curves in legends, and of one that belongs to several of our series
PAPER_COLOUR = "0.55"
PAPER_LABEL, TARGET_LABEL = "in the paper", "target"  # the last names in a legend
# added to a series' name in the legend; the id of its line is the series alone
UNFINISHED_SUFFIX = f": {UNFINISHED}"
# of the height of the axis that our curves need: for the sake of the paper's values it grows by no
# more
STRETCH = 0.3
PAPER_DASHES = (0, (3, 1.2))  # the paper's curves


def category_colours(values: list[str]) -> dict[str, Any]:
    """Return category -> colour; more than ten categories get shades."""
    if len(values) <= len(PALETTE):
        colours = (*PALETTE[1:], PALETTE[0])
    else:
        colours = MUTED_COLOURS if len(values) <= len(MUTED_COLOURS) else shades(len(values))
    return dict(zip(values, colours, strict=False))


def series_styles(evidence: PaperData, results: Sequence[Results]) -> dict[str, SeriesStyle]:
    """Return the styles of the series of some experiments; a series of several experiments has the
    style of the first."""
    styles: dict[str, SeriesStyle] = {}
    for result in reversed(results):
        styles |= evidence.styles_of(result)
    return styles


def bar_style(style: SeriesStyle) -> Mapping[str, Any]:
    """Return matplotlib's options for the bar of a method; a proposed method is framed."""
    return {"color": style.colour, "edgecolor": "black", "linewidth": 1.0 if style.proposed else 0}


def draw_mean_bar(
    axes: Any, place: float, width: float, value: Estimate, options: Mapping[str, Any]
) -> None:
    """Draw the bar of a mean with its 95 % interval in black with a white rim, visible on a bar of
    any colour."""
    half = value.half_width
    if half is not None:
        axes.errorbar(
            [place],
            [value.mean],
            [half],
            fmt="none",
            ecolor="white",
            elinewidth=2.7,
            capthick=2.7,
            capsize=2.9,
        )
    whisker = {"capsize": 2, "error_kw": {"linewidth": 0.9, "ecolor": "black"}}
    axes.bar([place], [value.mean], width, yerr=half, **options, **whisker)


def draw_band(
    axes: Any,
    xs: Sequence[float],
    estimates: Sequence[Estimate],
    colour: str,
    bounds: tuple[float, float],
) -> None:
    """Draw the 95 % intervals of means, for each x, as far as they are between the `bounds` of what
    is possible."""
    low = [max(bounds[0], each.mean - (each.half_width or 0.0)) for each in estimates]
    high = [min(bounds[1], each.mean + (each.half_width or 0.0)) for each in estimates]
    axes.fill_between(xs, low, high, color=colour, alpha=0.13, linewidth=0, zorder=1)


def limit_to_lines(axes: Any) -> None:
    """Cut the vertical axis where bands alone would stretch it to more than twice the height of the
    lines."""
    values = [value for line in axes.lines for value in line.get_ydata() if math.isfinite(value)]
    if values:
        (low, high), margin = axes.get_ylim(), 0.5 * (max(values) - min(values))
        axes.set_ylim(max(low, min(values) - margin), min(high, max(values) + margin))


def draw_paper_values(
    axes: Any, values: Mapping[str, float], styles: Mapping[str, SeriesStyle], unit: str
) -> None:
    """Mark the values that the paper reports for the end of a run by diamonds at the right edge.

    If an axis with them would squeeze our curves, a text at the edge towards them names their
    range.
    """
    low, high = axes.get_ylim()
    least, most, room = min(values.values()), max(values.values()), STRETCH * (high - low)
    if least < low - room or most > high + room:
        span = f"{least:.1f}" if least == most else f"{least:.1f} to {most:.1f}"
        above = most > high + room
        place = {"transform": axes.transAxes, "ha": "right", "va": "top" if above else "bottom"}
        arrow = "\N{UPWARDS ARROW}" if above else "\N{DOWNWARDS ARROW}"
        axes.text(
            0.99,
            0.99 if above else 0.01,
            f"{arrow} in the paper {span} {unit}",
            fontsize=6,
            color="0.4",
            **place,
        )
        return
    margin = 0.04 * (high - low)
    axes.set_ylim(min(low, least - margin), max(high, most + margin))
    for label, value in values.items():
        place = {
            "transform": axes.get_yaxis_transform(),
            "clip_on": False,
            "zorder": 4,
            "linestyle": "none",
        }
        axes.plot(
            [1],
            [value],
            marker="D",
            markersize=3.8,
            markerfacecolor="white",
            color=styles[label].colour,
            **place,
        )
    axes.plot([], [], label=PAPER_LABEL, linestyle="none", **PAPER_MARKER)


def wrap_label(name: str, places: int) -> str:
    """Wrap the name below one of several places along the horizontal axis."""
    return textwrap.fill(name, max(6, 42 // places), break_long_words=False)


def sort_categories(values: set[str]) -> list[str]:
    """Sort categories: numbers by value, before words."""
    return sorted(
        values, key=lambda text: (0, float(text), "") if _is_number(text) else (1, 0.0, text)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def draw_grid_lines(axes: Any) -> None:
    axes.grid(axis="y", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
