"""The state of a run between two rounds."""

from dataclasses import dataclass, field
from typing import NamedTuple

from fedrepro.algorithms.base import Weights

MOMENTUM = "momentum/"  # prefix of the names of a client's momentum in its state
OWN = "own/"  # prefix of the names of the weights that stay with a client


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


def named(prefix: str, tensors: Weights) -> Weights:
    """Return tensors with a prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def part(prefix: str, state: Weights) -> Weights:
    """Return the tensors of a client's state that `named` gave this prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def method_part(state: Weights) -> Weights:
    """Return the tensors of a client's state that its method keeps, without those of the engine."""
    return {name: tensor for name, tensor in state.items() if not name.startswith((MOMENTUM, OWN))}
