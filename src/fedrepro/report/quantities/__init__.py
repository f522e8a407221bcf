"""Quantities: numbers computed per seed from one or two series of an experiment, which claims are compared with and bars show.
Each module but `base` is one kind and has a class `Quantity`."""

from typing import Any

from fedrepro.config import registry
from fedrepro.config.types import parse
from fedrepro.core.errors import error_prefix
from fedrepro.report.quantities.base import Quantity


def parse_quantity(values: Any, where: str) -> Quantity:
    """Return the quantity that the settings `values` describe; `where` opens the message of a UserError."""
    if isinstance(values, Quantity):
        return values
    kind = values.get("kind") if isinstance(values, dict) else None
    return parse(quantity_class(kind, where), values, where)


def quantity_class(kind: str | None, where: str) -> type[Quantity]:
    """Return the class of a kind. Raise UserError with the valid kinds if there is no such kind."""
    with error_prefix(f"{where}.kind"):
        return registry.find("report.quantities", kind).Quantity
