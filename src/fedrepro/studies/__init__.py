"""Studies: measurements on finished runs, one module each. A module declares frozen `Params` and a class `Study`, a subclass of
one of the two in `base.py`. `experiments.study_plan` plans studies, `experiments.study_runner` makes them."""

from typing import Any

from fedrepro.config import registry
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Frozen, parse
from fedrepro.studies.base import Study

__all__ = ["Study", "create", "settings"]


def settings(name: str, values: Any) -> Frozen | None:
    """Parse a study's settings; None stays None: no such study. Raises UserError for an unknown name or key."""
    params = registry.find("studies", name).Params
    return None if values is None else parse(params, values, f"study {name}")


def create(name: str, values: Any, config: RunConfig) -> Study:
    """Create a study of a run with this config."""
    return registry.find("studies", name).Study(settings(name, values), config)
