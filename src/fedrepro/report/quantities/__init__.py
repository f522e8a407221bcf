"""Quantities: numbers per seed from one or two series of an experiment, which claims are compared
with and bars show."""

from typing import Any

from fedrepro.config import registry
from fedrepro.config.types import parse
from fedrepro.core.errors import error_prefix
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.quantities.curves import Best, Difference, RoundsTo, RoundsToPlateau, Value
from fedrepro.report.quantities.studies import (
    Agreement,
    BytesOverhead,
    Divergence,
    Epochs,
    Gates,
    Spread,
    TotalVariance,
    WorstTenth,
)

KINDS: dict[str, type[Quantity]] = {
    "agreement": Agreement,
    "best": Best,
    "bytes_overhead": BytesOverhead,
    "difference": Difference,
    "divergence": Divergence,
    "epochs": Epochs,
    "gates": Gates,
    "rounds_to": RoundsTo,
    "rounds_to_plateau": RoundsToPlateau,
    "spread": Spread,
    "total_variance": TotalVariance,
    "value": Value,
    "worst_tenth": WorstTenth,
}


def parse_quantity(values: Any, where: str) -> Quantity:
    """Return the quantity that the settings `values` describe; `where` opens the message of a
    UserError."""
    if isinstance(values, Quantity):
        return values
    kind = values.get("kind") if isinstance(values, dict) else None
    return parse(quantity_class(kind, where), values, where)


def quantity_class(kind: str | None, where: str) -> type[Quantity]:
    """Return the class of a kind. Raise UserError with the valid kinds if there is no such kind."""
    with error_prefix(f"{where}.kind"):
        return registry.find("report.quantities", kind)
