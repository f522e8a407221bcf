"""A run's state as one file that is either the old or the new one, whenever the process is killed.

What clients keep between rounds lies beside it, one file per client and round in which it was kept (`checkpoint.clients/` for
`checkpoint.safetensors`): only what changed is written, before the file that names it; what it names no more is deleted after.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedrepro.engine.federation import Row, State
from fedrepro.engine.round import Kept
from fedrepro.errors import UserError
from fedrepro.files import replacing


def save(path: Path, state: State, rows: list[Row]) -> None:
    """Write state and metrics so far. Python's repr of floats keeps every bit."""
    kept = {_of_client(path, number, kept.round): kept for number, kept in state.clients.items()}
    for file, own in kept.items():
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            _write(file, own.tensors, {"round": own.round})
    tensors = {f"weights/{name}": tensor for name, tensor in state.weights.items()}
    tensors |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    clients = {number: kept.round for number, kept in state.clients.items()}
    note = {"round": state.round, "diverged": state.diverged, "clients": clients, "rows": rows}
    _write(path, tensors, note)
    for file in _clients(path).glob("*.safetensors"):
        if file not in kept:
            file.unlink()


def load(path: Path) -> tuple[State, list[Row]]:
    """Read what `save` wrote; the tensors lie on the CPU. Raises UserError when a file is damaged or missing."""
    tensors, note = _read(path)
    clients = {}
    for number, round in note["clients"].items():
        clients[int(number)] = Kept(round, _read(_of_client(path, int(number), round))[0])

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    return State(note["round"], part("weights/"), part("server/"), clients, note["diverged"]), note["rows"]


def delete(path: Path) -> None:
    """What `save` wrote, the clients' files too."""
    path.unlink(missing_ok=True)
    shutil.rmtree(_clients(path), ignore_errors=True)


def _clients(path: Path) -> Path:
    return path.with_suffix(".clients")


def _of_client(path: Path, number: int, round: int) -> Path:
    return _clients(path) / f"{number}-{round}.safetensors"


def _write(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    own = {name: tensor.cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(own, temporary, {"state": json.dumps(note)})


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file and its note."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            return tensors, json.loads(file.metadata()["state"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a checkpoint of this program ({error}); delete it to start the run anew") from None
