"""Find what a name stands for by listing a folder: adding a file under `algorithms/` is all its registration."""

import functools
import importlib
import pkgutil
from typing import Any

from fedrepro.config.types import Choice, Frozen, parse
from fedrepro.core.errors import UserError, unknown_name_message

PACKAGES = {
    "datasets": "data.datasets",
    "partitions": "data.partitions",
}  # kind -> its package; the others are called as their kind
TABLES = {
    "schedules": ("training.schedules", "SCHEDULES"),
    "tasks": ("models.tasks", "TASKS"),
}  # kinds that are small: one module each
OTHERS = ("base", "tasks")  # modules in such packages that no name stands for
DECLARED = {"algorithms": "Algorithm"}  # the class that declares the options; elsewhere the module does


def names(kind: str) -> list[str]:
    """List what a kind has, e.g. `names("models")`, without private modules (`_x`) and OTHERS."""
    return list(_names(kind))


@functools.cache
def _names(kind: str) -> tuple[str, ...]:
    if kind in TABLES:
        return tuple(sorted(_table(kind)))
    package = importlib.import_module(module_path(kind))
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if not name.startswith("_") and name not in OTHERS))


def module_path(kind: str, name: str | None = None) -> str:
    """The dotted path of a kind's package, or of the module that holds `name`."""
    if kind in TABLES:
        return f"fedrepro.{TABLES[kind][0]}"
    package = f"fedrepro.{PACKAGES.get(kind, kind)}"
    return package if name is None else f"{package}.{name}"


def _table(kind: str) -> dict[str, type]:
    return getattr(importlib.import_module(module_path(kind)), TABLES[kind][1])


def _one(kind: str) -> str:
    return (kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind).rstrip("s")


def find(kind: str, name: str) -> Any:
    """The module, or for schedules and tasks the class, that `name` stands for. Raises UserError listing the valid names."""
    if name not in (valid := names(kind)):
        raise UserError(unknown_name_message(_one(kind.rpartition(".")[2]), name, valid))
    return _table(kind)[name] if kind in TABLES else importlib.import_module(module_path(kind, name))


def options_model(kind: str, name: str) -> type[Frozen]:
    """The model of its options, without fields where it has none. Raises UserError for an unknown name."""
    found = find(kind, name)
    return getattr(getattr(found, DECLARED[kind]) if kind in DECLARED else found, "Params", Frozen)


def parse_options(kind: str, choice: Choice | str) -> Frozen:
    """The options of a choice, parsed. Raises UserError for an unknown name or option."""
    choice = Choice.model_validate(choice)
    return parse(options_model(kind, choice.name), choice.options, f"{_one(kind)} {choice.name}")
