"""Learning rate schedules. Each has frozen options and `rate(lr, round, rounds)`, the learning rate
of `round` (from 1) in a run of `rounds` rounds that starts at `lr`. To add one, write a class here
and a line in SCHEDULES."""

import math
from collections.abc import Callable
from typing import cast

from fedrepro.config import registry
from fedrepro.config.types import Choice, Count, Frozen, NonNegative, Positive


class Constant(Frozen):
    """A constant rate."""

    def rate(self, lr: float, round: int, rounds: int) -> float:
        return lr


class Cosine(Frozen):
    """Half a cosine from the first rate to `floor` (Loshchilov and Hutter 2017, Eq. 5, without
    restarts).

    floor + (lr - floor) (1 + cos(pi t / T)) / 2 with t = round - 1 and T = `period`, by default the
    run's number of rounds. `late` is as in FedCL's code, which computes a round's rate from the
    number of the round before, so that the first two rounds both use the first rate.
    """

    floor: NonNegative = 0.0
    period: Count | None = None
    late: bool = False

    def rate(self, lr: float, round: int, rounds: int) -> float:
        done = min(max(round - 1 - self.late, 0) / (self.period or rounds), 1)
        return self.floor + (lr - self.floor) * (1 + math.cos(math.pi * done)) / 2


class Exponential(Frozen):
    """Exponential decay: a factor `decay` after every round while the rate is above `floor` (it may
    end one step below)."""

    decay: Positive
    floor: NonNegative = 0.0

    def rate(self, lr: float, round: int, rounds: int) -> float:
        for _ in range(round - 1):
            if lr <= self.floor:
                break
            lr *= self.decay
        return lr


SCHEDULES = {"constant": Constant, "cosine": Cosine, "exponential": Exponential}


def create(choice: Choice, lr: float, rounds: int) -> Callable[[int], float]:
    """Return the named schedule as a function from round (from 1) to rate, for a run of `rounds`
    rounds that starts at `lr`."""
    schedule = cast(Constant | Cosine | Exponential, registry.parse_options("schedules", choice))
    return lambda round: schedule.rate(lr, round, rounds)
