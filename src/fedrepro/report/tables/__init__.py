"""Kinds of tables: rows of numbers with a caption and notes, as CSV, LaTeX and on the page."""

from fedrepro.report.tables.base import Table
from fedrepro.report.tables.targets import Communication, RoundsToTarget
from fedrepro.report.tables.values import (
    CurveDistances,
    FinalValues,
    MeanRanks,
    QuantityTable,
    TunedSettings,
)

KINDS: dict[str, type[Table]] = {
    "communication": Communication,
    "convergence": FinalValues,
    "curve_distance": CurveDistances,
    "quantities": QuantityTable,
    "ranks": MeanRanks,
    "rounds_to_target": RoundsToTarget,
    "tuning": TunedSettings,
}
