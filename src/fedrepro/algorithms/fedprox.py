"""FedProx: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, Eq. 2.

Local loss: cross entropy + mu/2 * ||w - w_t||^2 over all parameters, w_t the weights received.
`norm: mean` is a variant of other implementations, which averages within each tensor instead of
summing, (mu/2) * sum_l mean_i (w_li - w_t,li)^2, and is far weaker.
"""

from typing import Literal

from torch import Tensor

from fedrepro.algorithms.base import Batch, FedAvg, Weights
from fedrepro.config.types import Frozen, NonNegative


class FedProx(FedAvg):
    class Params(Frozen):
        mu: NonNegative = 0.01
        norm: Literal["sum", "mean"] = "sum"

    params: Params

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        entropy = super().loss(weights, received, batch)
        squares = [(weights[name] - received[name]).square() for name in self.trained]
        distance = sum(
            square.sum() if self.params.norm == "sum" else square.mean() for square in squares
        )
        return entropy + 0.5 * self.params.mu * distance
