"""Looks that are the same in every figure of every paper."""

import hashlib
from typing import Any

from fedrepro.report.loading import Results

# Okabe and Ito's colours, safe for the colour-blind; an algorithm keeps its own
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
REPORTED = {"fmt": "D", "color": "0.35", "markersize": 3.5, "markerfacecolor": "white"}  # the paper's numbers beside ours


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
        few = len(labels) <= len(LINES)
        for index, (label, shade) in enumerate(
            zip(labels, [colour] * len(labels) if few else shades(len(labels)), strict=True)
        ):
            mark = marker if few else MARKERS[index % len(MARKERS)]
            found[label] = {"color": shade, "marker": mark, "dashes": LINES[index] if few else ()}
    return found


def shades(count: int) -> list[tuple]:
    """Colours of an ordered scale, none of them too light on white."""
    from matplotlib import colormaps

    return [colormaps["viridis"]((place + 1) / (count + 2))[:3] for place in range(count)]


def palette(values: list[str]) -> dict[str, Any]:
    """Category -> colour: ten that the eye tells apart, more as shades."""
    from matplotlib import colormaps

    few = len(values) <= 10
    return dict(zip(values, [colormaps["tab10"](n) for n in range(len(values))] if few else shades(len(values)), strict=True))


def colours(found: list[Results]) -> dict[str, Any]:
    """Series of some experiments -> the algorithm's own colour; where two of them share one, ten that the eye tells apart."""
    own = {label: look["color"] for results in reversed(found) for label, look in looks(results).items()}
    labels = list(dict.fromkeys(label for results in found for label in results.labels))
    return own if len(set(own.values())) == len(own) else palette(labels)


def ordered(values: set[str]) -> list[str]:
    """Categories in the order that a reader expects: numbers by value, before words."""
    return sorted(values, key=lambda text: (0, float(text), "") if _number(text) else (1, 0.0, text))


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def grid(axes: Any) -> None:
    axes.grid(axis="y", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)


def scale_note(axes: Any, results: Results, top: bool = False) -> None:
    """In the corner, which scale it is, unless that is the paper's own."""
    if results.compare != "full":
        place = {"ha": "right", "va": "top" if top else "baseline", "fontsize": 6, "color": "0.4"}
        axes.text(0.99, 0.98 if top else 0.02, f"scale {results.note['scale']}", transform=axes.transAxes, **place)
