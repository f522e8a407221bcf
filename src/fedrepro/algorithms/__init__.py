"""Federated methods, one small file each: a class `Algorithm` with frozen `Params` and only the hooks in which it differs
from FedAvg. The hooks are documented in `base.py`."""

import torch

from fedrepro import registry
from fedrepro.algorithms.base import FedAvg
from fedrepro.config import RunConfig
from fedrepro.fields import Choice, parse
from fedrepro.models import Net
from fedrepro.tasks import Task

__all__ = ["FedAvg", "caution", "create", "settings"]


def settings(choice: Choice):
    """The algorithm's parsed `Params`."""
    return parse(registry.module("algorithms", choice.name).Algorithm.Params, choice.options, f"algorithm {choice.name}")


def caution(config: RunConfig) -> str | None:
    """What a user should know of a run's method before it is trained; None: nothing."""
    return registry.module("algorithms", config.algorithm.name).Algorithm.caution(settings(config.algorithm), config.precision)


def create(choice: Choice, net: Net, generator: torch.Generator, task: Task) -> FedAvg:
    """The named method around `net`; what it adds to the network starts from `generator`."""
    return registry.module("algorithms", choice.name).Algorithm(settings(choice), net, generator, task)
