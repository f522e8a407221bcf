"""Studies: measurements on finished runs, one module each: a class with the module's name, such as
`Gates` in `gates.py`, with frozen `Params`. `base.py` has their base classes.
`experiments.study_plan` plans studies, `experiments.study_runner` makes them."""

from typing import Any

from fedrepro.config import registry
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Frozen, parse
from fedrepro.studies.base import Study

__all__ = ["Study", "create", "settings"]


def settings(name: str, values: Any) -> Frozen | None:
    """Parse a study's settings; None stays None: no such study. Raises UserError for an unknown
    name or key."""
    params = registry.options_model("studies", name)
    return None if values is None else parse(params, values, f"study {name}")


def create(name: str, values: Any, config: RunConfig) -> Study:
    """Create a study of a run with this config."""
    return registry.find("studies", name)(settings(name, values), config)
