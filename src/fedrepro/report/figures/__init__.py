"""Kinds of figures: drawings on matplotlib axes, with the numbers and the caption that belong to
them."""

from fedrepro.report.figures.bars import Bars, Sweep
from fedrepro.report.figures.base import Figure
from fedrepro.report.figures.curves import Curves
from fedrepro.report.figures.dots import MeanRanks, Trials
from fedrepro.report.figures.panels import Composite
from fedrepro.report.figures.studies import Lines, Pictures

KINDS: dict[str, type[Figure]] = {
    "bars": Bars,
    "curves": Curves,
    "lines": Lines,
    "panels": Composite,
    "pictures": Pictures,
    "ranks": MeanRanks,
    "sweep": Sweep,
    "tuning": Trials,
}
