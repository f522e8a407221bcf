"""The specification with which Vega-Lite draws the curves of a results page, as plain data.

A datum is a curve. Its `source` is 0 for a seed of a series of ours, 1 for a digitised curve of the
paper, and 2 for a seed of a series of the experiment that it is compared with. templates/explore.js
adds the data and sets the parameters from the page's controls: `smooth`, `spread`, `hidden` (names
in the legend), `minus` (a series), `log_rounds`, `log_values`; and from the data: `complement`
(show what is missing to 100 %), `digits`, `quantiles` (of Student's t, by the number of seeds),
`lowest` and `highest` (of possible values).
"""

from typing import Any

GROUP = ["source", "label", "colour"]  # what tells lines apart
COLOUR = {"field": "colour", "type": "nominal", "scale": None}
DASHES = {
    "field": "source",
    "type": "nominal",
    "legend": None,
    "scale": {"domain": [0, 1, 2], "range": [[1, 0], [5, 3], [2, 2]]},
}
LINE = {"color": COLOUR, "strokeDash": DASHES, "detail": {"field": "label"}}
X = {
    "field": "round",
    "type": "quantitative",
    "title": None,
    "scale": {"nice": False},
    "axis": {"format": "d", "tickMinStep": 1},
}

# Each seed's curve minus the same seed's curve of the series `minus`, then means over the last
# `smooth` measured rounds, as in report/figures/curves.py. No transform overwrites a field that one
# before it reads: a changed parameter would apply it twice.
CURVES: list[dict[str, Any]] = [
    {"flatten": ["round", "value"]},
    {"calculate": "complement ? 100 - datum.value : datum.value", "as": "shown"},
    {
        "filter": "isValid(datum.value) && (datum.round > 0 || (smooth == 1 && !log_rounds)) && "
        "(datum.shown > 0 || !log_values)"
    },
    {"calculate": "datum.series === minus ? datum.shown : null", "as": "own"},
    {
        "joinaggregate": [{"op": "max", "field": "own", "as": "base"}],
        "groupby": ["source", "seed", "round"],
    },
    {"filter": "minus === '' || (datum.series !== minus && isValid(datum.base))"},
    {"calculate": "minus === '' ? datum.shown : datum.shown - datum.base", "as": "difference"},
    {
        "window": [
            {"op": "mean", "field": "difference", "as": "smoothed"},
            {"op": "count", "as": "width"},
        ],
        "frame": {"signal": "[1 - smooth, 0]"},
        "sort": [{"field": "round"}],
        "groupby": ["source", "label", "seed"],
    },
    {"filter": "datum.width == smooth && indexof(hidden, datum.entry) < 0"},
]
MEANS: list[dict[str, Any]] = [
    {
        "aggregate": [
            {"op": op, "field": "smoothed", "as": name}
            for op, name in (("mean", "mean"), ("stdev", "s"), ("count", "n"))
        ],
        "groupby": [*GROUP, "round"],
    },
    {"calculate": "datum.n > 1 ? quantiles[datum.n] * datum.s / sqrt(datum.n) : 0", "as": "half"},
    {
        "calculate": "log_values && datum.half >= datum.mean ? null : max(datum.mean - "
        "datum.half, lowest)",
        "as": "low",
    },
    {"calculate": "min(datum.mean + datum.half, highest)", "as": "high"},
    {
        "calculate": "format(datum.mean, digits) + (datum.n > 1 ? ' ± ' + format(datum.half, "
        "digits) : '')",
        "as": "text",
    },
]
BAND: dict[str, Any] = {
    "transform": [{"filter": "spread === 'interval' && datum.n > 1"}],
    "mark": {"type": "area", "opacity": 0.15},
    "encoding": {
        "y": {"field": "low", "type": "quantitative"},
        "y2": {"field": "high"},
        "color": COLOUR,
        "detail": {"field": "label"},
    },
}
MEAN: dict[str, Any] = {
    "mark": {"type": "line", "strokeWidth": 1.6},
    "encoding": LINE | {"y": {"field": "mean", "type": "quantitative"}},
}
SEEDS: dict[str, Any] = {
    "transform": [{"filter": "spread === 'seeds' && datum.source !== 1"}],
    "mark": {"type": "line", "strokeWidth": 0.6, "opacity": 0.6},
    "encoding": LINE
    | {
        "y": {"field": "smoothed", "type": "quantitative"},
        "detail": [{"field": "label"}, {"field": "seed"}],
    },
}
# the values of all lines in the nearest round, with a vertical line there
VALUES: dict[str, Any] = {
    "transform": [{"pivot": "label", "value": "text", "op": "max", "groupby": ["round"]}],
    "params": [
        {
            "name": "nearest",
            "select": {
                "type": "point",
                "fields": ["round"],
                "nearest": True,
                "on": "pointermove",
                "clear": "pointerout",
            },
        }
    ],
    "mark": {"type": "rule", "tooltip": {"content": "data"}},
    "encoding": {
        "opacity": {"condition": {"param": "nearest", "empty": False, "value": 0.5}, "value": 0}
    },
}
AXIS = {
    "domain": False,
    "tickSize": 3,
    "labelFontSize": 11,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
}
TITLE = {"anchor": "start", "fontWeight": "normal", "fontSize": 12}
SPECIFICATION: dict[str, Any] = {
    "params": [
        {"name": "smooth", "value": 1},
        {"name": "spread", "value": "interval"},
        {"name": "hidden", "value": []},
        {"name": "minus", "value": ""},
        {"name": "log_rounds", "value": False},
        {"name": "log_values", "value": False},
        {"name": "complement", "value": False},
        {"name": "digits", "value": ".2f"},
        {"name": "quantiles", "value": []},
        {"name": "lowest", "value": 0},
        {"name": "highest", "value": 100},
    ],
    "data": {"name": "curves"},
    "transform": CURVES,
    "vconcat": [
        {
            "height": 320,
            "transform": [{"filter": {"param": "rounds"}}],
            "encoding": {
                "x": X,
                "y": {
                    "type": "quantitative",
                    "title": None,
                    "scale": {"zero": False, "nice": False},
                },
            },
            "layer": [SEEDS, {"transform": MEANS, "layer": [BAND, MEAN, VALUES]}],
        },
        {
            "height": 48,
            "transform": MEANS,
            "params": [{"name": "rounds", "select": {"type": "interval", "encodings": ["x"]}}],
            "mark": {"type": "line", "strokeWidth": 1},
            "encoding": LINE
            | {
                "x": X,
                "y": {
                    "field": "mean",
                    "type": "quantitative",
                    "scale": {"zero": False},
                    "axis": None,
                },
            },
        },
    ],
    "spacing": 8,
    "config": {
        "background": "transparent",
        "view": {"stroke": None},
        "mark": {"aria": False},  # the chart has a description, and its numbers are in a file
        "axis": AXIS,
        "axisX": {"grid": False, "labelFlush": False},
        "axisY": {"minExtent": 40, "maxExtent": 40},  # so that both parts begin at the same place
        "title": TITLE,
    },
}
