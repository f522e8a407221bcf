"""Ordered classes as one number: squared error from the class's number; thresholds between the numbers decide.

So FedMAX's code grades retinas (Chen et al. 2020: one output, thresholds 0.5, 1.5, 2.5, 3.5, which are the default here).
"""

import torch
from torch import Tensor

from fedrepro.core.errors import UserError
from fedrepro.config.types import Frozen
from fedrepro.tasks import base


class Task(base.Task):
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
