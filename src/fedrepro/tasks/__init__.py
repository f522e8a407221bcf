"""What a network is trained for: its loss and what its outputs decide. Each module declares a class `Task` with frozen `Params`
and what `base.py` names; labels are class numbers for all of them."""

from fedrepro.config import registry
from fedrepro.config.types import Choice
from fedrepro.tasks.base import Task

__all__ = ["Task", "create"]


def create(choice: Choice, classes: int) -> Task:
    """The named task on data of so many classes. Raises UserError where the two do not fit."""
    return registry.module("tasks", choice.name).Task(registry.settings("tasks", choice), classes)
