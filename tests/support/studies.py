"""Studies of a small experiment, as they are planned."""

from fedrepro import experiments, studying
from fedrepro.config import Params
from fedrepro.fields import parse
from fedrepro.overlays import merge
from fedrepro.paths import Paths
from fedrepro.studying import Studied
from support.settings import SETTINGS, fig


def plans(changes: dict, paths: Paths, **more) -> dict[str, Studied]:
    """The studies of an experiment of two series, with changes laid over its settings."""
    params = parse(Params, merge(merge(SETTINGS, fig(**changes)), more), "test")
    return studying.plan(experiments.plan(params, paths)["p"]["fig"], params, paths)
