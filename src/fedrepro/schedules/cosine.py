"""Half a cosine from the first rate to `floor` (Loshchilov and Hutter 2017, Eq. 5, without restarts).

floor + (lr - floor) (1 + cos(pi t / T)) / 2 with t = round - 1 and T = `period`, by default the run's number of rounds.
`late` is FedCL's code: it computes the rate of the next round from the number of the one before, so that the first two rounds
both run at the first rate.
"""

import math

from fedrepro.config.types import Count, Frozen, NonNegative


class Params(Frozen):
    floor: NonNegative = 0.0
    period: Count | None = None
    late: bool = False


def rate(params: Params, lr: float, round: int, rounds: int) -> float:
    done = min(max(round - 1 - params.late, 0) / (params.period or rounds), 1)
    return params.floor + (lr - params.floor) * (1 + math.cos(math.pi * done)) / 2
