"""Federated methods, one small file each: a class `Algorithm` with frozen `Params` and only the hooks in which it differs
from FedAvg. The hooks are documented in `base.py`."""

import torch

from fedrepro import registry
from fedrepro.algorithms.base import FedAvg
from fedrepro.config import RunConfig
from fedrepro.errors import UserError
from fedrepro.fields import Choice
from fedrepro.models import Net
from fedrepro.tasks import Task

__all__ = ["FedAvg", "caution", "check", "create"]


def caution(config: RunConfig) -> str | None:
    """What a user should know of a run's method before it is trained; None: nothing."""
    return _named(config.algorithm).caution(registry.settings("algorithms", config.algorithm), config.precision)


def check(config: RunConfig) -> None:
    """Raises UserError for a run that lacks what its method needs."""
    params = registry.settings("algorithms", config.algorithm)
    if config.proxy is None and _named(config.algorithm).needs_proxy(params):
        raise UserError(f"algorithm {config.algorithm.name}: needs proxy images: set proxy, e.g. {{share: 0.01}}")


def create(choice: Choice, net: Net, generator: torch.Generator, task: Task) -> FedAvg:
    """The named method around `net`; what it adds to the network starts from `generator`."""
    return _named(choice)(registry.settings("algorithms", choice), net, generator, task)


def _named(choice: Choice) -> type[FedAvg]:
    return registry.module("algorithms", choice.name).Algorithm
