"""Inheritance of settings: a variant's are merged over its experiment's, a scale's over an
experiment's."""

from typing import Any

from pydantic import RootModel

from fedrepro.config.types import Key, parse
from fedrepro.core.errors import UserError

VARIANTS = "variants"


class Experiments(RootModel[dict[Key, dict[str, Any] | None]]):
    """The experiments of a file, or the variants of one experiment, by name."""


def merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Return `base` updated by `overlay`, nested dictionaries key by key; a changed `name` drops
    the old name's options."""
    if "name" in overlay and overlay["name"] != base.get("name"):
        return dict(overlay)
    merged = dict(base)
    for key, value in overlay.items():
        inherited = base.get(key)
        if isinstance(inherited, str):  # a choice written as a plain name
            inherited = {"name": inherited}
        merged[key] = (
            merge(inherited, value)
            if isinstance(value, dict) and isinstance(inherited, dict)
            else value
        )
    return merged


def flatten(
    values: Any, where: str, base: dict[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the settings of experiments and of their variants, at any depth, by name.

    A variant's settings are merged over those of its experiment, `base`, whose series it replaces
    if it has its own. Raises UserError, beginning with `where`, for settings that are no mapping,
    and for a name that occurs twice.
    """
    experiments: dict[str, dict[str, Any]] = {}
    for name, written in parse(Experiments, {} if values is None else values, where).root.items():
        settings = dict(written or {})
        variants = settings.pop(VARIANTS, None)
        inherited = {
            key: value
            for key, value in (base or {}).items()
            if key != "series" or key not in settings
        }
        settings = merge(inherited, settings)
        flat_variants = flatten(variants, f"{where}: {name}.{VARIANTS}", settings)
        for key, resolved in [(name, settings), *flat_variants.items()]:
            if key in experiments:
                raise UserError(f"{where}: {key}: two experiments have this name. Rename one.")
            experiments[key] = resolved
    return experiments
