"""Studies: what is asked of runs beside their rounds, one small file each: frozen `Params` and a class `Study` made from one of
the two in `base.py`, which say what a study is given. `experiments.study_plan` plans them, `experiments.study_runner`
makes them."""

from typing import Any

from fedrepro.config import registry
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Frozen, parse
from fedrepro.studies.base import Study

__all__ = ["Study", "create", "settings"]


def settings(name: str, values: Any) -> Frozen | None:
    """The named study's parsed `Params`; None where it is not asked for. Raises UserError for an unknown name or key."""
    params = registry.find("studies", name).Params
    return None if values is None else parse(params, values, f"study {name}")


def create(name: str, values: Any, config: RunConfig) -> Study:
    """The named study of a run with this config."""
    return registry.find("studies", name).Study(settings(name, values), config)
