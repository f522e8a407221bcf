"""What a network is trained for: its loss and what its outputs decide; labels are class numbers for all tasks. A new one is a
class here and a line in TASKS."""

import torch
from torch import Tensor

from fedrepro.config import registry
from fedrepro.config.types import Choice, Frozen
from fedrepro.core.errors import UserError


class Task:
    """Base of all tasks. `outputs`: how many numbers the network puts out for an image."""

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


class Classification(Task):
    """One score for each class, softmax cross entropy in nats, the highest score decides."""

    @property
    def outputs(self) -> int:
        return self.classes

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Mean over a batch of -log softmax(outputs)[label]. torch's own also asks which labels to ignore, which costs clients
        that train together a third of a small step. On CUDA the slope of a gather is a sort, to be repeatable: half of the
        launches of a small step."""
        logs = outputs.log_softmax(1)
        return masked(logs, labels) if logs.device.type == "cuda" else -logs.gather(1, labels[:, None]).mean()

    def decide(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1)


def masked(logs: Tensor, labels: Tensor) -> Tensor:
    """The mean of -logs[label] with all other places at 0, not multiplied by it: log 0 may stand there."""
    chosen = labels[:, None] == torch.arange(logs.shape[1], device=logs.device)
    return -torch.where(chosen, logs, 0).sum(1).mean()


class Regression(Task):
    """Ordered classes as one number: squared error from the class's number; thresholds between the numbers decide.

    So FedMAX's code grades retinas (Chen et al. 2020: one output, thresholds 0.5, 1.5, 2.5, 3.5, which are the default here).
    """

    class Params(Frozen):
        thresholds: tuple[float, ...] | None = None  # rising; from the k-th on class k; null: half-way between the numbers

    outputs = 1

    def __init__(self, params: Params, classes: int) -> None:
        super().__init__(params, classes)
        given = params.thresholds
        self.thresholds = torch.tensor([label + 0.5 for label in range(classes - 1)] if given is None else given)
        if len(self.thresholds) != classes - 1 or bool((self.thresholds.diff() <= 0).any()):
            raise UserError(f"task regression: thresholds: expected {classes - 1} rising numbers (got {list(given)})")

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels).square().mean()

    def decide(self, outputs: Tensor) -> Tensor:
        return torch.bucketize(outputs[:, 0], self.thresholds.to(outputs), right=True)


TASKS = {"classification": Classification, "regression": Regression}


def create(choice: Choice, classes: int) -> Task:
    """The named task on data of so many classes. Raises UserError where the two do not fit."""
    return registry.find("tasks", choice.name)(registry.parse_options("tasks", choice), classes)
