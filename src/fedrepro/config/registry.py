"""Find what a name stands for by listing a folder: adding a file under `algorithms/` is all the registration there is."""

import functools
import importlib
import pkgutil
from types import ModuleType

from fedrepro.core.errors import UserError, not_among
from fedrepro.config.types import Choice, Frozen, parse

DECLARED = {"algorithms": "Algorithm", "tasks": "Task"}  # the class that declares the options; elsewhere the module does


def names(kind: str) -> list[str]:
    """Names of the modules in the package `fedrepro.<kind>`, e.g. `names("models")`, without private ones (`_x`) and `base`."""
    return list(_names(kind))


@functools.cache
def _names(kind: str) -> tuple[str, ...]:
    package = importlib.import_module(f"fedrepro.{kind}")
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if not name.startswith("_") and name != "base"))


def _one(kind: str) -> str:
    return (kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind).rstrip("s")


def module(kind: str, name: str) -> ModuleType:
    """The module `fedrepro.<kind>.<name>`. Raises UserError listing the valid names."""
    if name not in (valid := names(kind)):
        raise UserError(not_among(_one(kind.rpartition(".")[2]), name, valid))
    return importlib.import_module(f"fedrepro.{kind}.{name}")


def options(kind: str, name: str) -> type[Frozen]:
    """The model of its options, without fields where it has none. Raises UserError for an unknown name."""
    found = module(kind, name)
    return getattr(getattr(found, DECLARED[kind]) if kind in DECLARED else found, "Params", Frozen)


def settings(kind: str, choice: Choice | str) -> Frozen:
    """The options of a choice, parsed. Raises UserError for an unknown name or option."""
    choice = Choice.model_validate(choice)
    return parse(options(kind, choice.name), choice.options, f"{_one(kind)} {choice.name}")
