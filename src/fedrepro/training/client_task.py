"""Tasks of clients in a round and their results, as plain values and tensors that can go to another process."""

from typing import NamedTuple

from torch import Tensor

from fedrepro.algorithms.base import Weights

Values = dict[str, float]  # measure -> value


class ClientTask(NamedTuple):
    """A local training from the received weights; `lr`, `trained`, `epochs`, `starts` as in `RoundRunner.train`.

    `phase` gives each training in a round random draws of its own. `measures` are evaluated at each client, those of the
    received weights only in the `first` training. Clients that are only measured send nothing, and train only if a measure
    needs it."""

    received: Weights
    lr: float
    trained: tuple[str, ...]
    epochs: int | None = None
    starts: dict[int, Weights] = {}
    phase: str = ""
    measures: tuple[str, ...] = ()
    first: bool = True
    trains: bool = True
    sends: bool = True


class ClientResult(NamedTuple):
    """A client's mean loss over its steps, a scalar tensor (None if it did not train), its measured values, the message that it
    sends and the state that it keeps."""

    loss: Tensor | None
    values: Values
    message: Weights = {}
    state: Weights = {}
