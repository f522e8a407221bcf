"""The state of a run between two rounds."""

from dataclasses import dataclass, field
from typing import NamedTuple

from fedrepro.algorithms.base import Weights


class ClientState(NamedTuple):
    """The tensors that a client keeps, and the round in which it kept them."""

    round: int
    tensors: Weights


@dataclass(frozen=True)
class State:
    """All that the next round depends on besides the config: training resumes from it as if it had never stopped."""

    round: int
    weights: Weights
    server: Weights
    clients: dict[int, ClientState] = field(default_factory=dict)  # clients without state are left out
    diverged: bool = False
