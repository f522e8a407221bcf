"""Checkpoints of a run's state, replaced atomically: a killed process leaves the old one or the new
one.

The states of clients are stored in a folder next to it (`checkpoint.clients/` for
`checkpoint.safetensors`), one file for each client and round in which it was saved. New ones are
written before the checkpoint that names them; unnamed ones are deleted after it.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, check_regular, sha256
from fedrepro.runs.run import Row
from fedrepro.training.state import ClientState, State

Keep = Callable[[int, ClientState], ClientState]
RESTART_REMEDY = "delete it to start the run from the beginning"


def save(path: Path, state: State, rows: list[Row], run: str) -> None:
    """Write the state and the metrics so far of the run with id `run`. Python's repr of floats
    keeps every bit."""
    if not path.exists():
        delete(path)  # clients' files of an interrupted save
    client_files = {
        _client_file(path, number, client.round): client for number, client in state.clients.items()
    }
    for file, client in client_files.items():
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            _write(file, client.tensors, {"round": client.round, "run": run})
    tensors = {f"weights/{name}": tensor for name, tensor in state.weights.items()}
    tensors |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    clients = {number: client.round for number, client in state.clients.items()}
    note = {
        "round": state.round,
        "diverged": state.diverged,
        "clients": clients,
        "rows": rows,
        "run": run,
    }
    _write(path, tensors, note)
    delete_unreferenced(path, state)


def delete_unreferenced(path: Path, state: State) -> None:
    """Delete the clients' files that a stored state does not name.

    Call it before training resumes from the state: a file that an interrupted save left would be
    taken for the new one of the same round, which another machine or executor may compute
    differently."""
    named = {_client_file(path, number, client.round) for number, client in state.clients.items()}
    for file in _client_folder(path).glob("*.safetensors"):
        if file not in named:
            file.unlink()


def load(
    path: Path, run: str, keep: Keep = lambda number, client: client
) -> tuple[State, list[Row]]:
    """Read what `save` wrote, to the CPU. Raises UserError if a file is damaged, missing or another
    run's.

    `keep` is called with each client's number and state, and returns the one to use: see
    `ClientStore.keep`."""
    tensors, note = _read(path, run, "round", "diverged", "clients", "rows")
    clients = {}
    for number, round in note["clients"].items():
        client = ClientState(round, _read(_client_file(path, int(number), round), run, "round")[0])
        clients[int(number)] = keep(int(number), client)

    def part(prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }

    return State(note["round"], part("weights/"), part("server/"), clients, note["diverged"]), note[
        "rows"
    ]


def delete(path: Path) -> None:
    """Delete a checkpoint and its clients' files."""
    path.unlink(missing_ok=True)
    shutil.rmtree(_client_folder(path), ignore_errors=True)


def _client_folder(path: Path) -> Path:
    return path.with_suffix(".clients")


def _client_file(path: Path, number: int, round: int) -> Path:
    return _client_folder(path) / f"{number}-{round}.safetensors"


def _write(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    copies = {
        name: tensor.cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    content = safetensors.torch.save(
        copies, {"state": json.dumps(note | {"digest": _digest(copies, note)})}
    )
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def _read(path: Path, run: str, *keys: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a file's tensors and its note, which must have these keys."""
    check_regular(path, RESTART_REMEDY)
    try:
        with safe_open(path, framework="pt") as file:
            # cloned, since the file does not align them, and products round differently in
            # unaligned memory
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            note = json.loads(file.metadata()["state"])
            digest = note.pop("digest", None)
    except (
        SafetensorError,
        OSError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        raise UserError(
            f"{path}: not a checkpoint of this program ({error}); {RESTART_REMEDY}"
        ) from None
    if digest != _digest(tensors, note) or not note.keys() >= {"run", *keys}:
        raise UserError(f"{path}: damaged since it was written; {RESTART_REMEDY}")
    if note["run"] != run:
        raise UserError(f"{path}: belongs to the run {note['run']}; {RESTART_REMEDY}")
    return tensors, note


def _digest(tensors: dict[str, Tensor], note: dict[str, Any]) -> str:
    parts = [json.dumps(note)]
    for name, tensor in sorted(tensors.items()):
        # also of bfloat16, which numpy does not know
        plain = tensor.contiguous().reshape(-1).view(torch.uint8)
        parts += [f"{name} {tensor.dtype} {tuple(tensor.shape)}", memoryview(plain.numpy())]  # pyright: ignore[reportArgumentType]  (an array has the buffer protocol)
    return sha256(*parts)
