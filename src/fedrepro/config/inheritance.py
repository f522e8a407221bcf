"""Settings laid over others: of a scale over an experiment, of an experiment over the one that it is like."""

from typing import Any

from fedrepro.core.errors import FEW, NEAREST, not_among


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

    found: dict[str, dict[str, Any]] = {}
    for name in items:
        path = [name]  # from one to the one that it is like
        while path[-1] not in found and (other := items[path[-1]].get("like")) is not None:
            if other in path:
                ring = [*path[path.index(other) :], other]
                told = ring if len(ring) <= FEW else [*ring[:NEAREST], "...", other]
                raise ValueError(f"{where}.{path[-1]}: like: {' is like '.join(told)}")
            if not isinstance(other, str) or other not in items:
                raise ValueError(f"{where}.{path[-1]}: like: {not_among(kind, other, items)}")
            path.append(other)
        base: dict[str, Any] = {}
        for last in reversed(path):
            own = {key: value for key, value in items[last].items() if key != "like"}
            kept = {key: value for key, value in base.items() if key != "series" or key not in own}
            base = found.setdefault(last, merge(kept, own))
    return {name: found[name] for name in items}
