"""What a round starts from and leaves behind."""

from dataclasses import dataclass, field
from typing import NamedTuple

from fedrepro.algorithms.base import Weights


class ClientState(NamedTuple):
    """A client's own state and the round in which it kept it."""

    round: int
    tensors: Weights


@dataclass(frozen=True)
class State:
    """All that a round depends on, beside the config: with it training goes on as if it had never stopped."""

    round: int
    weights: Weights
    server: Weights
    clients: dict[int, ClientState] = field(default_factory=dict)  # of those that keep something
    diverged: bool = False
