"""Federated methods, one file each: a class with the module's name, such as `FedProx` in
`fedprox.py`, with frozen `Params` and the hooks in which it differs from FedAvg. `base.py`
documents the hooks."""

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
    """Return the warning of a run's method about its options, or None."""
    return _find(config.algorithm).warning(
        registry.parse_options("algorithms", config.algorithm), config.precision
    )


def check(config: RunConfig, classes: int) -> None:
    """Raise UserError if a run, on data with this number of classes, lacks something that its
    method needs."""
    params = registry.parse_options("algorithms", config.algorithm)
    if config.proxy is None and _find(config.algorithm).needs_proxy(params):
        raise UserError(
            f"algorithm {config.algorithm.name}: needs proxy images: set proxy, e.g. {{share: "
            f"0.01}}"
        )
    outputs = tasks.create(config.task, classes).outputs
    _check_network(config.algorithm, models.blocks(config.model, outputs), config.model.name)


def create(choice: Choice, net: Net, generator: torch.Generator, task: Task) -> FedAvg:
    """Create the named method for `net`; new weights that it adds to the network are drawn from
    `generator`.

    Raises UserError if it cannot train the network."""
    _check_network(choice, net.spec.blocks, net.spec.model)
    return _find(choice)(registry.parse_options("algorithms", choice), net, generator, task)


def _check_network(choice: Choice, blocks: Sequence[Block | Head], model: str) -> None:
    if why := _find(choice).incompatibility(registry.parse_options("algorithms", choice), blocks):
        raise UserError(f"algorithm {choice.name}: model {model}: {why}")


def _find(choice: Choice) -> type[FedAvg]:
    return registry.find("algorithms", choice.name)
