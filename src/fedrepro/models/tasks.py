"""Tasks: the loss and the predicted classes of a network's outputs; labels are class numbers in all
tasks. To add one, write a class here and a line in TASKS."""

import torch
from torch import Tensor

from fedrepro.config import registry
from fedrepro.config.types import Choice, Frozen
from fedrepro.core.errors import UserError


class Task:
    """Base class of tasks. `outputs`: the number of the network's outputs for an image."""

    class Params(Frozen):
        pass

    outputs: int

    def __init__(self, params: Frozen, classes: int) -> None:
        self.params, self.classes = params, classes

    def require_class_scores(self, where: str) -> None:
        """Raise UserError, whose message begins with `where`, unless there is one output for each
        class."""
        if self.outputs != self.classes:
            raise UserError(
                f"{where}: it needs a task with one score for each class, as classification"
            )

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss, a scalar, over a batch of outputs (B, O) and labels (B,)."""
        raise NotImplementedError

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the predicted class (B,) of each row of outputs (B, O)."""
        raise NotImplementedError


class Classification(Task):
    """Classification with one score for each class, softmax cross entropy in nats; the highest
    score is predicted."""

    def __init__(self, params: Frozen, classes: int) -> None:
        super().__init__(params, classes)
        self.outputs = classes

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over a batch of -log softmax(outputs)[label].

        torch's own function also checks for labels to ignore, which takes a third of a small
        stacked step. On CUDA the repeatable gradient of a gather is a sort: half of the launches of
        a small step."""
        logs = outputs.log_softmax(1)
        return (
            masked_loss(logs, labels)
            if logs.device.type == "cuda"
            else -logs.gather(1, labels[:, None]).mean()
        )

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1)


def masked_loss(logs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of -logs[label]; other places are replaced by 0, not multiplied by it, since
    they may be log 0."""
    chosen = labels[:, None] == torch.arange(logs.shape[1], device=logs.device)
    return -torch.where(chosen, logs, 0).sum(1).mean()


class Regression(Task):
    """Regression on the number of an ordered class, with squared error; thresholds between the
    numbers give the class.

    FedMAX's code grades retinas so (Chen et al. 2020: one output, thresholds 0.5, 1.5, 2.5, 3.5,
    which are the default here).
    """

    class Params(Frozen):
        # rising; class k begins at the k-th; null: half-way between the numbers
        thresholds: tuple[float, ...] | None = None

    outputs = 1

    def __init__(self, params: Params, classes: int) -> None:
        super().__init__(params, classes)
        thresholds = params.thresholds
        if thresholds is None:
            thresholds = tuple(label + 0.5 for label in range(classes - 1))
        self.thresholds = torch.tensor(thresholds)
        if len(self.thresholds) != classes - 1 or bool((self.thresholds.diff() <= 0).any()):
            raise UserError(
                f"task regression: thresholds: expected {classes - 1} rising numbers (got "
                f"{list(thresholds)})"
            )

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels).square().mean()

    def predict(self, outputs: Tensor) -> Tensor:
        return torch.bucketize(outputs[:, 0], self.thresholds.to(outputs), right=True)


TASKS = {"classification": Classification, "regression": Regression}


def create(choice: Choice, classes: int) -> Task:
    """Create the named task for data with `classes` classes. Raises UserError if it does not suit
    them."""
    return registry.find("tasks", choice.name)(registry.parse_options("tasks", choice), classes)
