"""The JSON schema of `workflow/experiments/<paper>.yaml`, for editors: what a paper's artifacts consist of, and each kind of
figure, table and cell with its settings. Whether what they name exists, only the code checks."""

from fedrepro import registry
from fedrepro.report.spec import ROOMS, Paper
from fedrepro.schema import NAMES, Schema, some, untitled

KINDS = {"Figure": "figures", "Table": "tables", "Cell": "cells"}  # class of all kinds -> their folder


def of_artifacts() -> Schema:
    described = Paper.model_json_schema()
    defs = described["$defs"]
    for name, room in KINDS.items():
        found = [_kind(room, kind, name) for kind in registry.names(f"report.{room}")]
        for own in found:
            defs |= own.pop("$defs", {})
        defs[name] = {"anyOf": found}
    laid_over = some(own["properties"] for own in defs["Cell"]["anyOf"])  # a cell's target or round at another scale
    defs["Claim"]["properties"]["scales"]["additionalProperties"] = laid_over
    for room in ROOMS:
        described["properties"][room]["propertyNames"] = NAMES
    return untitled(described)


def _kind(room: str, kind: str, name: str) -> Schema:
    """One kind's settings; only the usual one need not be named."""
    own = getattr(registry.module(f"report.{room}", kind), name).model_json_schema()
    own["properties"]["kind"] = {"const": kind}
    if room in ROOMS and ROOMS[room][1] == kind:
        own["required"].remove("kind")
    return own
