"""The registry of names that settings may choose: the modules in a folder, so that adding a file
registers it."""

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

from fedrepro.config.types import Choice, Frozen, parse
from fedrepro.core.errors import UserError, unknown_name_message

PACKAGES = {"partitions": "data.partitions"}  # kind -> package, unless they have the same name
TABLES = {  # kind -> the module with its table
    "datasets": ("data.datasets", "SOURCES"),
    "report.figures": ("report.figures", "KINDS"),
    "report.tables": ("report.tables", "KINDS"),
    "report.quantities": ("report.quantities", "KINDS"),
    "schedules": ("training.schedules", "SCHEDULES"),
    "tasks": ("models.tasks", "TASKS"),
}
UNREGISTERED = ("base", "tasks")  # modules in the packages that are no choices
# kinds whose modules have a class of their name: FedProx in fedprox.py
CLASSES = ("algorithms", "models", "studies")
# the user's own methods of this process, by module and class; no registered name has a dot
OWN: dict[str, type] = {}


def names(kind: str) -> list[str]:
    """Return the names of a kind, e.g. of "models", in alphabetical order."""
    return sorted(_table(kind)) if kind in TABLES else list(_names(kind))


@functools.cache
def _names(kind: str) -> tuple[str, ...]:
    package = importlib.import_module(module_path(kind))
    modules = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(
        sorted(name for name in modules if not name.startswith("_") and name not in UNREGISTERED)
    )


def module_path(kind: str, name: str | None = None) -> str:
    """Return the dotted path of a kind's package, or of the module of `name`."""
    if kind in TABLES:
        return f"fedrepro.{TABLES[kind][0]}"
    package = f"fedrepro.{PACKAGES.get(kind, kind)}"
    return package if name is None else f"{package}.{name}"


def _table(kind: str) -> dict[str, Any]:
    return getattr(_import(module_path(kind)), TABLES[kind][1])


# which takes microseconds even for what is imported
_import = functools.cache(importlib.import_module)


def _singular(kind: str) -> str:
    return (kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind).rstrip("s")


def find(kind: str, name: str | None) -> Any:
    """Return the row of a name for kinds with a table, its class for kinds in CLASSES, else its
    module.

    Raises UserError, with the valid names."""
    if kind == "algorithms" and name in OWN:
        return OWN[name]
    valid = _table(kind) if kind in TABLES else names(kind)
    if name is None or name not in valid:
        raise UserError(unknown_name_message(_singular(kind.rpartition(".")[2]), name, names(kind)))
    if isinstance(valid, dict):
        return valid[name]
    module = importlib.import_module(module_path(kind, name))
    return _class_of(module, name.replace("_", "")) if kind in CLASSES else module


@functools.cache
def _class_of(module: ModuleType, name: str) -> type:
    """Return the class of a name, whatever its case; the last one, if a name is given twice."""
    *_, found = (
        value
        for key, value in vars(module).items()
        if key.lower() == name and isinstance(value, type)
    )
    return found


def options_model(kind: str, name: str) -> type[Frozen]:
    """Return the model of a choice's options, by default one without fields. Raises UserError for
    an unknown name."""
    owner = find(kind, name)
    if isinstance(owner, type) and issubclass(owner, Frozen):
        return owner
    return getattr(owner, "options" if kind == "datasets" else "Params", Frozen)


def parse_options(kind: str, choice: Choice | str) -> Frozen:
    """Return the parsed options of a choice. Raises UserError for an unknown name or option."""
    choice = Choice.model_validate(choice)
    return parse(
        options_model(kind, choice.name), choice.options, f"{_singular(kind)} {choice.name}"
    )
