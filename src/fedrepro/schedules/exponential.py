"""Multiplied by `decay` after every round while it is above `floor` (so that it may end one step below)."""

from fedrepro.config.types import Frozen, NonNegative, Positive


class Params(Frozen):
    decay: Positive
    floor: NonNegative = 0.0


def rate(params: Params, lr: float, round: int, rounds: int) -> float:
    for _ in range(round - 1):
        if lr <= params.floor:
            break
        lr *= params.decay
    return lr
