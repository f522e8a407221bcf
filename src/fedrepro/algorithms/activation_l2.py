"""L2 penalty on activations: the baseline that Chen et al. 2020 (FedMAX, Eq. 2 and Fig. 3b) compare
their entropy term with.

Local loss: cross entropy + beta * the size of A, the (B, D) values that enter the last layer, after
their ReLU.

norm  frobenius: ||A||_F of the whole batch, neither squared nor averaged, as in the authors' code.
It grows with the square
      root of the batch, so that a last, smaller batch is pulled less.
      samples: the mean over the images of ||a_i||_2, as Eq. 2 reads.

The gradient of a norm is a unit vector however small the activations are; if they are all 0, it is
taken as 0.
"""

from typing import ClassVar, Literal

from torch import Tensor

from fedrepro.algorithms.base import Batch, FedAvg, Weights
from fedrepro.config.types import Frozen, NonNegative


class ActivationL2(FedAvg):
    class Params(Frozen):
        beta: NonNegative = 0.001
        norm: Literal["frobenius", "samples"] = "frobenius"

    params: Params
    needs_hidden_layer: ClassVar[bool] = True

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        outputs = self.outputs(weights, batch)
        activations = outputs.penultimate
        size = (
            activations.norm()
            if self.params.norm == "frobenius"
            else activations.norm(dim=1).mean()
        )
        return self.task_loss(outputs, batch) + self.params.beta * size
