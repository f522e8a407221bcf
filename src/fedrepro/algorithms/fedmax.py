"""FedMAX: Chen et al., Mitigating Activation Divergence for Accurate and Communication-Efficient
Federated Learning, 2020.

Local loss: cross entropy + beta * divergence of p from the uniform distribution U over D values,
where p = softmax(a) and a are the values that enter the last layer, after their ReLU.

direction  activation_uniform: KL(p || U), the paper's Eq. 4, which is the negative entropy of its
Eq. 3 and a constant.
           uniform_activation: KL(U || p), the authors' code. U is its minimum too, but it is no
           entropy: it keeps raising units for which p is almost 0, unlike the paper's.
reduction  samples: mean over the images of a batch, as Eqs. 3-4 read. elements: that divided by D,
the code's element-wise mean
           ("averaged over the activation", as the paper explains its large beta); 1500 is then 1500
           / 512 for each image.

Defaults are the code's; beta is the paper's (1000 in the code's scripts).
"""

import math
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from fedrepro.algorithms.base import Batch, FedAvg, Weights
from fedrepro.config.types import Frozen, NonNegative


class FedMAX(FedAvg):
    class Params(Frozen):
        beta: NonNegative = 1500.0
        direction: Literal["uniform_activation", "activation_uniform"] = "uniform_activation"
        reduction: Literal["elements", "samples"] = "elements"

    params: Params
    needs_hidden_layer: ClassVar[bool] = True

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        outputs = self.outputs(weights, batch)
        divergence = from_uniform(outputs.penultimate, self.params.direction).mean()
        if self.params.reduction == "elements":
            divergence = divergence / outputs.penultimate.shape[1]
        return self.task_loss(outputs, batch) + self.params.beta * divergence


def from_uniform(activations: Tensor, direction: str) -> Tensor:
    """Return for each row of activations (B, D) the divergence of its softmax from the uniform
    distribution, in nats, (B,)."""
    log_p, width = F.log_softmax(activations, 1), activations.shape[1]
    if direction == "uniform_activation":
        return -math.log(width) - log_p.mean(1)
    return math.log(width) + (log_p.exp() * log_p).sum(1)
