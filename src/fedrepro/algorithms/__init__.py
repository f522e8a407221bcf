"""Federated methods, one small file each: a class `Algorithm` with frozen `Params` and only the hooks in which it differs
from FedAvg. The hooks are documented in `base.py`."""

from collections.abc import Sequence

import torch

from fedrepro import models
from fedrepro.algorithms.base import FedAvg
from fedrepro.config import registry
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Head, Net, tasks
from fedrepro.models.tasks import Task

__all__ = ["FedAvg", "warning", "check", "create"]


def warning(config: RunConfig) -> str | None:
    """What a user should know of a run's method before it is trained; None: nothing."""
    return _named(config.algorithm).warning(registry.parse_options("algorithms", config.algorithm), config.precision)


def check(config: RunConfig, classes: int) -> None:
    """Raises UserError for a run, on data of so many classes, that lacks what its method needs."""
    params = registry.parse_options("algorithms", config.algorithm)
    if config.proxy is None and _named(config.algorithm).needs_proxy(params):
        raise UserError(f"algorithm {config.algorithm.name}: needs proxy images: set proxy, e.g. {{share: 0.01}}")
    outputs = tasks.create(config.task, classes).outputs
    _fit(config.algorithm, models.blocks(config.model, outputs), config.model.name)


def create(choice: Choice, net: Net, generator: torch.Generator, task: Task) -> FedAvg:
    """The named method around `net`; what it adds to the network starts from `generator`. Raises UserError for a network
    that is not for it."""
    _fit(choice, net.plan.blocks, net.plan.model)
    return _named(choice)(registry.parse_options("algorithms", choice), net, generator, task)


def _fit(choice: Choice, blocks: Sequence[Block | Head], model: str) -> None:
    if why := _named(choice).incompatibility(registry.parse_options("algorithms", choice), blocks):
        raise UserError(f"algorithm {choice.name}: model {model}: {why}")


def _named(choice: Choice) -> type[FedAvg]:
    return registry.find("algorithms", choice.name).Algorithm
