"""Learning rate schedules. Each declares frozen `Params` and `rate(params, lr, round, rounds)`, the learning rate of `round`
(from 1) in a run of `rounds` rounds that starts at `lr`. To add one, write a class here and a line in SCHEDULES."""

import math
from collections.abc import Callable

from fedrepro.config import registry
from fedrepro.config.types import Choice, Count, Frozen, NonNegative, Positive


class Constant:
    """A constant rate."""

    class Params(Frozen):
        pass

    @staticmethod
    def rate(params: Params, lr: float, round: int, rounds: int) -> float:
        return lr


class Cosine:
    """Half a cosine from the first rate to `floor` (Loshchilov and Hutter 2017, Eq. 5, without restarts).

    floor + (lr - floor) (1 + cos(pi t / T)) / 2 with t = round - 1 and T = `period`, by default the run's number of rounds.
    `late` is as in FedCL's code, which computes a round's rate from the number of the round before, so that the first two
    rounds both use the first rate.
    """

    class Params(Frozen):
        floor: NonNegative = 0.0
        period: Count | None = None
        late: bool = False

    @staticmethod
    def rate(params: Params, lr: float, round: int, rounds: int) -> float:
        done = min(max(round - 1 - params.late, 0) / (params.period or rounds), 1)
        return params.floor + (lr - params.floor) * (1 + math.cos(math.pi * done)) / 2


class Exponential:
    """Exponential decay: a factor `decay` after every round while the rate is above `floor` (it may end one step below)."""

    class Params(Frozen):
        decay: Positive
        floor: NonNegative = 0.0

    @staticmethod
    def rate(params: Params, lr: float, round: int, rounds: int) -> float:
        for _ in range(round - 1):
            if lr <= params.floor:
                break
            lr *= params.decay
        return lr


SCHEDULES = {"constant": Constant, "cosine": Cosine, "exponential": Exponential}


def create(choice: Choice, lr: float, rounds: int) -> Callable[[int], float]:
    """Return the named schedule as a function from round (from 1) to rate, for a run of `rounds` rounds that starts at `lr`."""
    schedule, params = registry.find("schedules", choice.name), registry.parse_options("schedules", choice)
    return lambda round: schedule.rate(params, lr, round, rounds)
