"""A run's state as one file that is either the old or the new one, whenever the process is killed.

What clients keep between rounds lies beside it, one file per client and round in which it was kept (`checkpoint.clients/` for
`checkpoint.safetensors`): only what changed is written, before the file that names it; what it names no more is deleted after.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, sha256
from fedrepro.runs.run import Row
from fedrepro.training.state import ClientState, State

RESTART_REMEDY = "delete it to start the run anew"


def save(path: Path, state: State, rows: list[Row], run: str) -> None:
    """Write a run's state and metrics so far. Python's repr of floats keeps every bit."""
    if not path.exists():
        delete(path)  # what a save that was cut off left of clients
    kept = {_client_file(path, number, kept.round): kept for number, kept in state.clients.items()}
    for file, own in kept.items():
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            _write(file, own.tensors, {"round": own.round, "run": run})
    tensors = {f"weights/{name}": tensor for name, tensor in state.weights.items()}
    tensors |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    clients = {number: kept.round for number, kept in state.clients.items()}
    note = {"round": state.round, "diverged": state.diverged, "clients": clients, "rows": rows, "run": run}
    _write(path, tensors, note)
    delete_unreferenced(path, state)


def delete_unreferenced(path: Path, state: State) -> None:
    """Delete the files of clients that a stored state does not name. Who goes on from it has to: what a save that was cut off
    left would pass for what another machine or executor makes of the same round."""
    named = {_client_file(path, number, kept.round) for number, kept in state.clients.items()}
    for file in _client_folder(path).glob("*.safetensors"):
        if file not in named:
            file.unlink()


def load(path: Path, run: str) -> tuple[State, list[Row]]:
    """Read what `save` wrote; the tensors lie on the CPU. Raises UserError when a file is damaged, missing or another run's."""
    tensors, note = _read(path, run, "round", "diverged", "clients", "rows")
    clients = {}
    for number, round in note["clients"].items():
        clients[int(number)] = ClientState(round, _read(_client_file(path, int(number), round), run, "round")[0])

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    return State(note["round"], part("weights/"), part("server/"), clients, note["diverged"]), note["rows"]


def delete(path: Path) -> None:
    """What `save` wrote, the clients' files too."""
    path.unlink(missing_ok=True)
    shutil.rmtree(_client_folder(path), ignore_errors=True)


def _client_folder(path: Path) -> Path:
    return path.with_suffix(".clients")


def _client_file(path: Path, number: int, round: int) -> Path:
    return _client_folder(path) / f"{number}-{round}.safetensors"


def _write(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    own = {name: tensor.cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    content = safetensors.torch.save(own, {"state": json.dumps(note | {"digest": _digest(own, note)})})
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def _read(path: Path, run: str, *keys: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file and its note, which has these keys. Files of earlier code tell neither their run nor a digest."""
    try:
        with safe_open(path, framework="pt") as file:
            # cloned, since they lie in the file as they fit, and products round otherwise in memory that is not aligned
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            note = json.loads(file.metadata()["state"])
            written, missing = note.pop("digest", None), [key for key in keys if key not in note]
    except (SafetensorError, OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a checkpoint of this program ({error}); {RESTART_REMEDY}") from None
    if missing or written not in (None, _digest(tensors, note)):
        raise UserError(f"{path}: damaged since it was written; {RESTART_REMEDY}")
    if note.get("run", run) != run:
        raise UserError(f"{path}: belongs to the run {note['run']}; {RESTART_REMEDY}")
    return tensors, note


def _digest(tensors: dict[str, Tensor], note: dict[str, Any]) -> str:
    parts = [json.dumps(note)]
    for name, tensor in sorted(tensors.items()):
        plain = tensor.contiguous().reshape(-1).view(torch.uint8)  # bfloat16, which numpy does not know, too
        parts += [f"{name} {tensor.dtype} {tuple(tensor.shape)}", memoryview(plain.numpy())]
    return sha256(*parts)
