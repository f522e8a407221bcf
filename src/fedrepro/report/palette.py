"""How series look in figures: within a paper a name has one colour and one marker wherever it is drawn.

More than three series of one experiment that share their method, which is an algorithm with its options, differ in a setting,
such as the learning rate: they are shades of an ordered scale.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

# Okabe and Ito's colours without their yellow: the colour-blind tell them apart, and grey print by the markers
PALETTE = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
EXTRA_COLOURS = ("#882255", "#999933", "#332288", "#AA4499")  # Paul Tol's, where those are used up
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "d", "p", "h")
ALGORITHM_STYLES = {
    "fedavg": 0,
    "fedmmd": 1,
    "l2": 2,
    "fedprox": 3,
    "fedfusion": 4,
    "fedmax": 6,
    "psi_net": 1,
}  # the same in all papers
METHOD_NAMES = {"fedprox": "FedProx", "fedmax": "FedMAX", "activation_l2": "L2 penalty"}  # of which figures sweep a setting
MARKER_SIZES = {"o": 3.4, "s": 3.2, "D": 3.0, "h": 3.6, "p": 3.8}  # points, so that all look as large
DASHES = ((), (4, 1.5), (1, 1))
MAX_INDIVIDUAL_STYLES = 3  # so many series of one method have looks of their own

Series = Mapping[str, str | Mapping[str, Any]]  # label -> algorithm, alone or with its options, as in experiments.yaml


@dataclass(frozen=True)
class SeriesStyle:
    """A series' colour and marker; `proposed`: the paper's own method, which is drawn heavier."""

    colour: str
    marker: str
    proposed: bool = False

    @property
    def line_width(self) -> float:
        """Points, of a line."""
        return 1.7 if self.proposed else 1.0

    @property
    def marker_options(self) -> dict[str, Any]:
        """Of a line: its markers."""
        size = MARKER_SIZES.get(self.marker, 4.2) + (0.4 if self.proposed else 0)
        return {"marker": self.marker, "markersize": size, "markeredgewidth": 0.4, "markeredgecolor": "w"}


def assign_styles(experiments: Mapping[str, Series], proposed: Collection[str] = ()) -> dict[str, dict[str, SeriesStyle]]:
    """Experiment -> series -> look; `proposed` are labels. Series that meet in an experiment differ in colour while there are
    enough, and in marker."""
    keys = {name: _keys(series) for name, series in experiments.items()}
    pairs = _pairs(keys)
    return {name: _of_experiment(own, pairs, proposed) for name, own in keys.items()}


def shades(count: int) -> list[str]:
    """Colours of an ordered scale, none of them too light on white."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](0.82 * place / max(count - 1, 1))) for place in range(count)]


def _keys(series: Series) -> dict[str, tuple[str, ...]]:
    """Label -> its algorithm and what has a look together: the label alone, or a method with many settings."""
    methods = {label: _method(label, given) for label, given in series.items()}
    many = Counter(methods.values())
    return {label: method if many[method] > MAX_INDIVIDUAL_STYLES else (method[0], label) for label, method in methods.items()}


def _method(label: str, given: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Name and options, without the settings that a series overrides."""
    if isinstance(given, str):
        return (given,)
    options = sorted(f"{key}={value!r}" for key, value in given.items() if key not in ("name", "overrides"))
    return (given.get("name", label), *options)


def _pairs(experiments: Mapping[str, Mapping[str, tuple]]) -> dict[tuple, tuple[str, str]]:
    """Key -> colour and marker, in the order in which they come."""
    found: dict[tuple, tuple[str, str]] = {}
    order = list(dict.fromkeys(key for own in experiments.values() for key in own.values()))
    claims = Counter(PALETTE[ALGORITHM_STYLES[name]] for name in {key[0] for key in order} & ALGORITHM_STYLES.keys())
    for key in order:
        beside = {other for own in experiments.values() if key in own.values() for other in own.values()} & found.keys()
        found[key] = _next(key[0], claims, [found[other] for other in beside], list(found.values()))
    return found


def _next(algorithm: str, claims: Counter, beside: list[tuple], given: list[tuple]) -> tuple[str, str]:
    """The algorithm's own pair where it is free, else the colour and the marker that the paper uses least."""
    used, marks = claims + Counter(colour for colour, _ in given), Counter(marker for _, marker in given)
    place = ALGORITHM_STYLES.get(algorithm)
    taken = {other for other, _ in beside}
    free = (
        [colour for colour in PALETTE if colour not in taken]
        or [colour for colour in EXTRA_COLOURS if colour not in taken]
        or list(PALETTE)
    )
    colour = PALETTE[place] if place is not None and PALETTE[place] in free else min(free, key=used.__getitem__)
    if place is not None and not marks[MARKERS[place]]:
        return colour, MARKERS[place]
    near, reserved = {marker for _, marker in beside}, {MARKERS[own] for own in ALGORITHM_STYLES.values()}
    return colour, min(MARKERS, key=lambda marker: (marker in near, marks[marker], marker in reserved))


def _of_experiment(own: Mapping[str, tuple], pairs: Mapping[tuple, tuple], proposed: Collection[str]) -> dict[str, SeriesStyle]:
    groups: dict[tuple, list[str]] = {}
    for label, key in own.items():
        groups.setdefault(key, []).append(label)
    found = {labels[0]: pairs[key] for key, labels in groups.items() if len(labels) == 1}
    for labels in groups.values():
        if len(labels) > 1:
            found |= zip(labels, _shaded(len(labels), {marker for _, marker in found.values()}), strict=True)
    return {label: SeriesStyle(*found[label], label in proposed) for label in own}


def _shaded(count: int, taken: Collection[str]) -> list[tuple[str, str]]:
    """Looks of the settings of one method, with none of the taken markers while there are others."""
    marks = [marker for marker in MARKERS if marker not in taken] or list(MARKERS)
    return [(shade, marks[place % len(marks)]) for place, shade in enumerate(shades(count))]
