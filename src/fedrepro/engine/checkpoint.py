"""A run's state as one file that is either the old or the new one, whenever the process is killed."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fedrepro.engine.federation import Row, State
from fedrepro.errors import UserError
from fedrepro.files import replacing


def save(path: Path, state: State, rows: list[Row]) -> None:
    """Write state and metrics so far. Python's repr of floats keeps every bit."""
    tensors = {f"weights/{name}": tensor for name, tensor in state.weights.items()}
    tensors |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    note = {"round": state.round, "diverged": state.diverged, "rows": rows}
    own = {name: tensor.cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(own, temporary, {"state": json.dumps(note)})


def load(path: Path) -> tuple[State, list[Row]]:
    """Read what `save` wrote; the tensors lie on the CPU. Raises UserError when the file is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a checkpoint of this program ({error}); delete it to start the run anew") from None

    def part(prefix: str) -> dict:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    return State(note["round"], part("weights/"), part("server/"), note["diverged"]), note["rows"]
