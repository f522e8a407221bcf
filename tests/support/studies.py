"""Studies of a small experiment, as they are planned."""

from collections.abc import Mapping

from fedrepro.config.inheritance import merge
from fedrepro.experiments import plan
from fedrepro.experiments.study_plan import PlannedStudy
from fedrepro.runs.paths import Paths
from support import settings
from support.settings import SETTINGS, fig


def plans(changes: dict, paths: Paths, **more) -> Mapping[str, PlannedStudy]:
    """The studies of an experiment of two series, with changes laid over its settings."""
    params = settings.params(merge(merge(SETTINGS, fig(**changes)), more))
    return plan.plan_experiments(params, paths)["p"]["fig"].studies
