"""What every task answers."""

from torch import Tensor

from fedrepro.core.errors import UserError
from fedrepro.config.types import Frozen


class Task:
    """`outputs`: how many numbers the network puts out for an image."""

    class Params(Frozen):
        pass

    outputs: int

    def __init__(self, params: Params, classes: int) -> None:
        self.params, self.classes = params, classes

    def needs_scores(self, who: str) -> None:
        """Raises UserError, for whoever asks, unless there is one output for each class."""
        if self.outputs != self.classes:
            raise UserError(f"{who}: it needs a task with one score for each class, as classification")

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """A scalar: the mean over a batch of outputs (B, O) and labels (B,)."""
        raise NotImplementedError

    def decide(self, outputs: Tensor) -> Tensor:
        """The class (B,) that each row of outputs (B, O) stands for."""
        raise NotImplementedError
