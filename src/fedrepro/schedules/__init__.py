"""How the learning rate changes from round to round. Each module declares frozen `Params` and
`rate(params, lr, round, rounds)`, the rate of `round` (from 1) of a run over `rounds` that starts at `lr`."""

from collections.abc import Callable

from fedrepro.config import registry
from fedrepro.config.types import Choice

__all__ = ["create"]


def create(choice: Choice, lr: float, rounds: int) -> Callable[[int], float]:
    """Round (from 1) -> the rate of the named schedule, of a run over `rounds` that starts at `lr`."""
    module, params = registry.module("schedules", choice.name), registry.settings("schedules", choice)
    return lambda round: module.rate(params, lr, round, rounds)
