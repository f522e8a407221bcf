"""How the learning rate changes from round to round. Each module declares frozen `Params` and
`rate(params, lr, round, rounds)`, the rate of `round` (from 1) of a run over `rounds` that starts at `lr`."""

from fedrepro import registry
from fedrepro.config import Choice, parse

__all__ = ["rate", "settings"]


def settings(choice: Choice):
    """The schedule's parsed `Params`."""
    return parse(registry.module("schedules", choice.name).Params, choice.options, f"schedule {choice.name}")


def rate(choice: Choice, lr: float, round: int, rounds: int) -> float:
    return registry.module("schedules", choice.name).rate(settings(choice), lr, round, rounds)
