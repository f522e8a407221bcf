"""Federated methods, one small file each: a class `Algorithm` with frozen `Params` and only the hooks in which it differs
from FedAvg. The hooks are documented in `base.py`."""

import torch

from fedrepro import registry
from fedrepro.algorithms.base import FedAvg
from fedrepro.config import RunConfig
from fedrepro.fields import Choice
from fedrepro.models import Net
from fedrepro.tasks import Task

__all__ = ["FedAvg", "caution", "create"]


def caution(config: RunConfig) -> str | None:
    """What a user should know of a run's method before it is trained; None: nothing."""
    return registry.module("algorithms", config.algorithm.name).Algorithm.caution(
        registry.settings("algorithms", config.algorithm), config.precision
    )


def create(choice: Choice, net: Net, generator: torch.Generator, task: Task) -> FedAvg:
    """The named method around `net`; what it adds to the network starts from `generator`."""
    return registry.module("algorithms", choice.name).Algorithm(registry.settings("algorithms", choice), net, generator, task)
