"""What figures share beside the looks of series: colours and order of categories, bars, the paper's numbers beside ours."""

import textwrap
from collections.abc import Mapping
from typing import Any

from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.palette import PALETTE, SeriesStyle, shades
from fedrepro.report.statistics import Estimate
from fedrepro.runs.reasons import UNFINISHED

# Paul Tol's muted scheme, with grey for its palest: ten that the colour-blind tell apart
MUTED_COLOURS = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#777777")
PAPER_MARKER = {"fmt": "D", "color": "0.35", "markersize": 3.5, "markerfacecolor": "white"}  # the paper's numbers beside ours
PAPER_LABEL, TARGET_LABEL = "in the paper", "target"  # in a legend, below all series
UNFINISHED_SUFFIX = f": {UNFINISHED}"  # behind the name of a series there, whose line has the series as its id
PAPER_DASHES = (0, (3, 1.2))  # the paper's curves


def category_colours(values: list[str]) -> dict[str, Any]:
    """Category -> colour."""
    few = (*PALETTE[1:], PALETTE[0]) if len(values) <= len(PALETTE) else MUTED_COLOURS
    return dict(zip(values, few if len(values) <= len(few) else shades(len(values)), strict=False))


def series_styles(evidence: PaperData, found: list[Results]) -> dict[str, SeriesStyle]:
    """Series of some experiments -> look; one that several have looks as in the first."""
    return {label: look for results in reversed(found) for label, look in evidence.styles_of(results).items()}


def bar_style(look: SeriesStyle) -> Mapping[str, Any]:
    """Of a method; the proposed one is framed."""
    return {"color": look.colour, "edgecolor": "black", "linewidth": 1.0 if look.proposed else 0}


def mean_bar(axes: Any, place: float, width: float, value: Estimate, looks: Mapping[str, Any]) -> None:
    """The bar of a mean with its standard deviation: black with a white rim, to be seen on a bar of any colour."""
    if value.std is not None:
        axes.errorbar([place], [value.mean], [value.std], fmt="none", ecolor="white", elinewidth=2.7, capthick=2.7, capsize=2.9)
    whisker = {"capsize": 2, "error_kw": {"linewidth": 0.9, "ecolor": "black"}}
    axes.bar([place], [value.mean], width, yerr=value.std, **looks, **whisker)


def wrap_label(name: str, places: int) -> str:
    """A name below one of so many places along a column's axis."""
    return textwrap.fill(name, max(6, 42 // places), break_long_words=False)


def sort_categories(values: set[str]) -> list[str]:
    """Categories in the order that a reader expects: numbers by value, before words."""
    return sorted(values, key=lambda text: (0, float(text), "") if _number(text) else (1, 0.0, text))


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def draw_grid_lines(axes: Any) -> None:
    axes.grid(axis="y", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
