"""Settings laid over others: of a variant over the experiment that it stands under, of a scale over an experiment."""

from typing import Any

from pydantic import RootModel

from fedrepro.config.types import Key, parse
from fedrepro.core.errors import UserError

VARIANTS = "variants"


class Experiments(RootModel[dict[Key, dict[str, Any] | None]]):
    """The experiments of a file, or the variants of one of them."""


def merge(base: dict, overlay: dict) -> dict:
    """`base` with `overlay` laid over it, dictionaries merged level by level; a changed `name` drops the old name's options."""
    if "name" in overlay and overlay["name"] != base.get("name"):
        return dict(overlay)
    merged = dict(base)
    for key, value in overlay.items():
        below = {"name": base[key]} if isinstance(base.get(key), str) else base.get(key)  # a choice written as a plain name
        nested = isinstance(value, dict) and isinstance(below, dict)
        merged[key] = merge(below, value) if nested else value
    return merged


def flatten(values: Any, where: str, base: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return each experiment by its name: its settings laid over those of the one under whose `variants` it stands. Own series
    replace the other's. Raises UserError, beginning with `where`, for what is no experiment or stands twice.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, given in parse(Experiments, values, where).root.items():
        own = dict(given or {})
        variants = own.pop(VARIANTS, None) or {}
        shared = {key: value for key, value in (base or {}).items() if key != "series" or key not in own}
        own = merge(shared, own)
        below = flatten(variants, f"{where}: {name}.{VARIANTS}", own)
        for other, values in [(name, own), *below.items()]:
            if other in found:
                raise UserError(f"{where}: {other}: two experiments have this name. Rename one.")
            found[other] = values
    return found
