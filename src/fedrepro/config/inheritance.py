"""Settings laid over others: of a scale over an experiment, of an experiment over the one that it is like."""

from typing import Any

from fedrepro.core.errors import not_among


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


def inherited(items: dict[str, dict[str, Any]], where: str, kind: str = "experiment") -> dict[str, dict[str, Any]]:
    """Experiments, or what `kind` says, with each `like: other` replaced by what the other says, the own settings laid over it;
    own series replace the other's. Raises ValueError for another that is not there, or that is like this one.

    A key and not a YAML alias: an alias is one object, so that `dvc exp run -S` and `snakemake --config`, which change objects,
    would change, or lose, more than they were asked to.
    """

    def settings(name: str, path: tuple[str, ...]) -> dict[str, Any]:
        own = dict(items[name])
        if "like" not in own:
            return own
        other = own.pop("like")
        if other in path:
            raise ValueError(f"{where}.{name}: like: {' is like '.join((*path, other))}")
        if not isinstance(other, str) or other not in items:
            raise ValueError(f"{where}.{name}: like: {not_among(kind, other, items)}")
        base = settings(other, (*path, other))
        return merge({key: value for key, value in base.items() if key != "series" or key not in own}, own)

    return {name: settings(name, (name,)) for name in items}
