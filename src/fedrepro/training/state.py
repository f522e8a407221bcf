"""The state of a run between two rounds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from fedrepro.algorithms.base import Weights

MOMENTUM = "momentum/"  # prefix of the names of a client's momentum in its state
OWN = "own/"  # prefix of the names of the weights that stay with a client


class ClientState:
    """The tensors that a client keeps, and the round in which it kept them. They may be moved to a file (`client_store.py`)."""

    def __init__(self, round: int, tensors: Weights) -> None:
        self.round, self._read = round, lambda: tensors
        self.bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        self.in_file = False

    @property
    def tensors(self) -> Weights:
        return self._read()

    def move_to_file(self, read: Callable[[], Weights]) -> None:
        """Free the tensors; from now on `read` returns them."""
        self._read, self.in_file = read, True


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


def to_device(tensors: Weights, device: torch.device) -> Weights:
    """Move tensors to the device; 4-d ones get channels last, which makes convolution and pooling up to twice as fast."""
    layout = {True: torch.channels_last, False: torch.contiguous_format}
    return {name: tensor.to(device, memory_format=layout[tensor.dim() == 4]) for name, tensor in tensors.items()}
