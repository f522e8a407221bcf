"""The state of a run between two rounds, and the memory for the states of clients.

The latest states of clients stay in memory up to a limit, the others in files of a temporary
folder. A file belongs to one `ClientState` and is deleted with it, when no state of the run needs
it any more.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from fedrepro.algorithms.base import Weights

MOMENTUM = "momentum/"  # prefix of the names of a client's momentum in its state
OWN = "own/"  # prefix of the names of the weights that stay with a client
# of clients' states in memory: those of 1,200 clients of a network with 100,000 weights
CLIENT_BYTES = 2**29
PREFIX = "clients-"  # of the folder's name


class ClientState:
    """The tensors that a client keeps, and the round in which it kept them. They may be moved to a
    file (`ClientStore`)."""

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
    """All that the next round depends on besides the config: training resumes from it as if it had
    never stopped."""

    round: int
    weights: Weights
    server: Weights
    # clients without state are left out
    clients: dict[int, ClientState] = field(default_factory=dict)
    diverged: bool = False


def named(prefix: str, tensors: Weights) -> Weights:
    """Return tensors with a prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def part(prefix: str, state: Weights) -> Weights:
    """Return the tensors of a client's state that `named` gave this prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }


def method_part(state: Weights) -> Weights:
    """Return the tensors of a client's state that its method keeps, without those of the engine."""
    return {name: tensor for name, tensor in state.items() if not name.startswith((MOMENTUM, OWN))}


def to_device(tensors: Weights, device: torch.device) -> Weights:
    """Move tensors to the device; 4-d ones get channels last, which makes convolution and pooling
    up to twice as fast."""
    layout = {True: torch.channels_last, False: torch.contiguous_format}
    return {
        name: tensor.to(device, memory_format=layout[tensor.dim() == 4])
        for name, tensor in tensors.items()
    }


class ClientStore:
    """The states of a federation's clients.

    Args:
        device: of the states in memory.
        folder: the folder in which the temporary one is made, when it is needed; None: the
            system's.
    """

    def __init__(self, device: torch.device, folder: Path | None = None) -> None:
        self.device, self.folder = device, folder
        self._in_memory: dict[int, ClientState] = {}  # by client, the oldest first
        self._bytes = self._files = 0
        self._temporary: Path | None = None
        self._delete: Callable[[], Any] = lambda: None

    def keep(self, client: int, state: ClientState) -> ClientState:
        """Move a client's state to the device and keep it in memory; those kept first are moved to
        files if needed."""
        if state.in_file or self._in_memory.get(client) is state:
            return state
        kept = ClientState(state.round, to_device(state.tensors, self.device))
        self._drop(client)
        self._in_memory[client] = kept
        self._bytes += kept.bytes
        while self._bytes > CLIENT_BYTES:
            oldest = next(iter(self._in_memory))
            self._move_to_file(self._in_memory[oldest])
            self._drop(oldest)
        return kept

    def close(self) -> None:
        """Delete the files; no state in a file can be read afterwards."""
        self._delete()
        self._temporary = None

    def _drop(self, client: int) -> None:
        """Count a client's state no longer as one in memory."""
        if state := self._in_memory.pop(client, None):
            self._bytes -= state.bytes

    def _move_to_file(self, state: ClientState) -> None:
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.folder))
            # at exit, too
            self._delete = weakref.finalize(
                self, shutil.rmtree, self._temporary, ignore_errors=True
            )
        self._files += 1
        path, device = self._temporary / f"{self._files}.safetensors", self.device
        # written here, since safetensors has an error of its own for a full disk
        path.write_bytes(
            safetensors.torch.save(
                {name: tensor.cpu().contiguous() for name, tensor in state.tensors.items()}
            )
        )

        def read() -> Weights:
            # cloned, since the file does not align them, and products round differently in
            # unaligned memory
            return to_device(
                {
                    name: tensor.clone()
                    for name, tensor in safetensors.torch.load_file(path).items()
                },
                device,
            )

        state.move_to_file(read)
        weakref.finalize(state, path.unlink, missing_ok=True)


def remove_left(folder: Path) -> None:
    """Remove the temporary folders that killed processes left in a run's folder."""
    for path in folder.glob(f"{PREFIX}*"):
        shutil.rmtree(path)
