"""What clients are asked to do in a round, and what comes of it, in plain values and tensors: another process may do it."""

from typing import NamedTuple

from torch import Tensor

from fedrepro.algorithms.base import Weights

Values = dict[str, float]  # by measure


class ClientTask(NamedTuple):
    """A local training from what was received; `lr`, `trained`, `epochs` and `starts` as in `algorithms.base.Work.train`.

    `phase` tells the draws of a round's trainings apart. `measures` are taken at each client, of what was received only where
    it is the `first` training. Clients that are only measured send nothing, and train only where a measure asks for it."""

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
    """A client's mean loss over its steps, a scalar tensor (None: it did not train), what was measured at it, what it sends and
    what it keeps."""

    loss: Tensor | None
    values: Values
    message: Weights = {}
    state: Weights = {}
