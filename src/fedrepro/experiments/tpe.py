"""Optuna's tree-structured Parzen estimator as a sampler of a series' grid: later values depend on the scores of earlier ones.

The first quarter of the budget is random; three batches follow, each proposed by the scores of all before it.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from fedrepro.core.errors import UserError

BATCHES = 4
TRIES = 20  # proposals of values that were tried already, before untried ones are taken in order

Place = tuple[int, ...]  # of each option the position of its value in the grid


def batch_size(budget: int) -> int:
    return math.ceil(budget / BATCHES)


def propose(sizes: Sequence[int], scores: dict[Place, float | None], count: int, seed: int) -> list[Place]:
    """Return untried places in a grid with these numbers of values, `count` at most.

    Args:
        scores: of the tried places, in order; higher is better, None (diverged) counts as the worst.

    Raises UserError without Optuna.
    """
    try:
        import optuna
    except ImportError:
        raise UserError("tuning.sampler: tpe needs Optuna. Install it: uv sync --extra tpe") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options: dict[str, Any] = {
        str(number): optuna.distributions.IntDistribution(0, size - 1) for number, size in enumerate(sizes)
    }
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    worst = min((score for score in scores.values() if score is not None), default=0.0)
    for place, score in scores.items():
        values = dict(zip(options, place, strict=True))
        value = worst if score is None else score
        study.add_trial(optuna.trial.create_trial(params=values, distributions=options, value=value))
    asked = (tuple(study.ask(options).params.values()) for _ in range(count * TRIES))
    places = itertools.chain(asked, itertools.product(*map(range, sizes)))
    proposed: list[Place] = []
    while len(proposed) < count and (place := next(places, None)) is not None:
        if place not in scores and place not in proposed:
            proposed.append(place)
    return proposed
