"""Numbers computed from one or two series of an experiment, seed by seed: what claims are held against and bars show. One small
file per kind, with its own class `Quantity`; `base.py` says what one has."""

from typing import Any

from fedrepro.config import registry
from fedrepro.config.types import parse
from fedrepro.core.errors import error_prefix
from fedrepro.report.quantities.base import Quantity


def parse_quantity(values: Any, where: str) -> Quantity:
    """The cell that `values` describe, by their `kind`. Raises UserError."""
    return (
        values
        if isinstance(values, Quantity)
        else parse(quantity_class(values.get("kind") if isinstance(values, dict) else None, where), values, where)
    )


def quantity_class(kind: str | None, where: str) -> type[Quantity]:
    """The class of a kind. Raises UserError that lists the valid ones."""
    with error_prefix(f"{where}.kind"):
        return registry.find("report.quantities", kind).Quantity
