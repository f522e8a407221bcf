"""Studies of a small experiment, as they are planned."""

from fedrepro.experiments import plan as experiments, study_plan as studying
from fedrepro.config.params import Params
from fedrepro.config.types import parse
from fedrepro.config.inheritance import merge
from fedrepro.runs.paths import Paths
from fedrepro.experiments.study_plan import Studied
from support.settings import SETTINGS, fig


def plans(changes: dict, paths: Paths, **more) -> dict[str, Studied]:
    """The studies of an experiment of two series, with changes laid over its settings."""
    params = parse(Params, merge(merge(SETTINGS, fig(**changes)), more), "test")
    return studying.plan(experiments.plan(params, paths)["p"]["fig"], params, paths)
