"""Colours and markers of series in figures: within a paper, a series has the same ones in every
figure.

If more than three series of an experiment share a method (an algorithm with its options), they
differ in a setting such as the learning rate and get shades of an ordered colour scale.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Okabe and Ito's colours without their yellow: safe for the colour-blind; in grey print, the
# markers tell series apart
PALETTE = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
EXTRA_COLOURS = ("#882255", "#999933", "#332288", "#AA4499")  # Paul Tol's, once PALETTE is used up
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "d", "p", "h")
# index into PALETTE and MARKERS, the same in all papers
ALGORITHM_STYLES = {
    "fedavg": 0,
    "fedmmd": 1,
    "l2": 2,
    "fedprox": 3,
    "fedfusion": 4,
    "fedmax": 6,
    "psi_net": 1,
}
# whose settings figures sweep
METHOD_NAMES = {"fedprox": "FedProx", "fedmax": "FedMAX", "activation_l2": "L2 penalty"}
# points, so that all look equally large
MARKER_SIZES = {"o": 3.4, "s": 3.2, "D": 3.0, "h": 3.6, "p": 3.8}
DASHES = ((), (4, 1.5), (1, 1))
MAX_INDIVIDUAL_STYLES = 3  # with more series than this, the series of a method are shades

# label -> algorithm, alone or with its options, as in experiments.yaml
Series = Mapping[str, str | Mapping[str, Any]]
# the algorithm first; series with the same key share a style, or are shades
StyleKey = tuple[str, ...]
ColourMarker = tuple[str, str]


@dataclass(frozen=True)
class SeriesStyle:
    """A series' colour and marker; `proposed` marks the paper's own method, which is drawn
    heavier."""

    colour: str
    marker: str
    proposed: bool = False
    dashes: tuple[float, ...] = ()

    @property
    def line_width(self) -> float:
        """Return the width of the line, in points."""
        return 1.7 if self.proposed else 1.0

    @property
    def marker_options(self) -> dict[str, Any]:
        """Return matplotlib's options for the line's markers."""
        size = MARKER_SIZES.get(self.marker, 4.2) + (0.4 if self.proposed else 0)
        return {
            "marker": self.marker,
            "markersize": size,
            "markeredgewidth": 0.4,
            "markeredgecolor": "w",
        }


def assign_styles(
    experiments: Mapping[str, Series], proposed: Collection[str] = ()
) -> dict[str, dict[str, SeriesStyle]]:
    """Return the style of every series, by experiment and label.

    The series of an experiment differ in colour as long as there are enough colours, and in marker.
    `proposed` lists the labels of the paper's own methods.
    """
    keys = {name: _style_keys(series) for name, series in experiments.items()}
    colour_markers = _assign_colour_markers(keys)
    return {
        name: _experiment_styles(series_keys, colour_markers, proposed)
        for name, series_keys in keys.items()
    }


def shades(count: int) -> list[str]:
    """Return colours of an ordered scale, none of them too light on white."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [
        to_hex(colormaps["viridis"](0.82 * place / max(count - 1, 1))) for place in range(count)
    ]


def _style_keys(series: Series) -> dict[str, StyleKey]:
    """Return each label's style key: the algorithm and the label, or the method if many series
    share it."""
    methods = {label: _method(label, algorithm) for label, algorithm in series.items()}
    counts = Counter(methods.values())
    return {
        label: method if counts[method] > MAX_INDIVIDUAL_STYLES else (method[0], label)
        for label, method in methods.items()
    }


def _method(label: str, algorithm: str | Mapping[str, Any]) -> StyleKey:
    """Return the algorithm's name and options, without the settings that the series overrides."""
    if isinstance(algorithm, str):
        return (algorithm,)
    options = sorted(
        f"{key}={value!r}" for key, value in algorithm.items() if key not in ("name", "overrides")
    )
    return (algorithm.get("name", label), *options)


def _assign_colour_markers(
    experiments: Mapping[str, Mapping[str, StyleKey]],
) -> dict[StyleKey, ColourMarker]:
    """Assign a colour and a marker to each style key, in the order in which the keys first
    occur."""
    assigned: dict[StyleKey, ColourMarker] = {}
    keys_by_experiment = [list(series_keys.values()) for series_keys in experiments.values()]
    order = list(dict.fromkeys(key for keys in keys_by_experiment for key in keys))
    algorithms = {key[0] for key in order}
    reserved = Counter(
        PALETTE[ALGORITHM_STYLES[name]] for name in algorithms & ALGORITHM_STYLES.keys()
    )
    for key in order:
        neighbours = {other for keys in keys_by_experiment if key in keys for other in keys}
        taken = [assigned[other] for other in neighbours & assigned.keys()]
        assigned[key] = _choose_colour_marker(key[0], reserved, taken, list(assigned.values()))
    return assigned


def _choose_colour_marker(
    algorithm: str,
    reserved: Counter[str],
    taken: Sequence[ColourMarker],
    assigned: Sequence[ColourMarker],
) -> ColourMarker:
    """Return the algorithm's own colour and marker if they are free, otherwise those that the paper
    uses least.

    `reserved` counts the own colours of the paper's algorithms, `taken` lists the styles in the
    same experiments, `assigned` those in the whole paper.
    """
    colour_counts = reserved + Counter(colour for colour, _ in assigned)
    marker_counts = Counter(marker for _, marker in assigned)
    own_index = ALGORITHM_STYLES.get(algorithm)
    taken_colours, taken_markers = {colour for colour, _ in taken}, {marker for _, marker in taken}
    free = [colour for colour in PALETTE if colour not in taken_colours]
    free = (
        free or [colour for colour in EXTRA_COLOURS if colour not in taken_colours] or list(PALETTE)
    )
    if own_index is not None and PALETTE[own_index] in free:
        colour = PALETTE[own_index]
    else:
        colour = min(free, key=colour_counts.__getitem__)
    if own_index is not None and not marker_counts[MARKERS[own_index]]:
        return colour, MARKERS[own_index]
    own_markers = {MARKERS[index] for index in ALGORITHM_STYLES.values()}
    return colour, min(
        MARKERS,
        key=lambda marker: (marker in taken_markers, marker_counts[marker], marker in own_markers),
    )


def _experiment_styles(
    series_keys: Mapping[str, StyleKey],
    colour_markers: Mapping[StyleKey, ColourMarker],
    proposed: Collection[str],
) -> dict[str, SeriesStyle]:
    groups: dict[StyleKey, list[str]] = {}
    for label, key in series_keys.items():
        groups.setdefault(key, []).append(label)
    styles = {labels[0]: colour_markers[key] for key, labels in groups.items() if len(labels) == 1}
    dashes: dict[str, tuple[float, ...]] = {}
    for labels in groups.values():
        if len(labels) > 1:
            taken_markers = {marker for _, marker in styles.values()}
            kinds, settings = _split_labels(labels)
            shaded = dict(zip(settings, _shaded_styles(len(settings), taken_markers), strict=True))
            styles |= {
                label: shaded[label.rpartition(", ")[2] if len(kinds) > 1 else label]
                for label in labels
            }
            dashes |= {
                label: DASHES[kinds.index(label.rpartition(", ")[0])]
                for label in labels
                if len(kinds) > 1
            }
    return {
        label: SeriesStyle(*styles[label], label in proposed, dashes.get(label, ()))
        for label in series_keys
    }


def _split_labels(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the parts of labels such as "paper net, 0.01" before and behind the comma, if few
    kinds share the settings.

    Kinds have dashes and settings have shades; otherwise there is one kind, and each label is a
    setting.
    """
    parts = [label.rpartition(", ") for label in labels]
    kinds, settings = (list(dict.fromkeys(part[place] for part in parts)) for place in (0, 2))
    shared = "" not in kinds and 1 < len(kinds) <= len(DASHES) and len(settings) < len(labels)
    return (kinds, settings) if shared else ([""], list(labels))


def _shaded_styles(count: int, taken_markers: Collection[str]) -> list[ColourMarker]:
    """Return the styles of one method's settings, with none of the taken markers while others are
    left."""
    markers = [marker for marker in MARKERS if marker not in taken_markers] or list(MARKERS)
    return [(shade, markers[place % len(markers)]) for place, shade in enumerate(shades(count))]
