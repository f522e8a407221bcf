"""FedDyn: Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021, Alg. 1.

Local loss: cross entropy - <g_i, w> + alpha/2 * ||w - w_t||^2, w_t the weights received. g_i
estimates the client's gradient at the end of its last training, so that the local losses and the
global loss have one minimum in common. After training to y_i,

    g_i <- g_i - alpha (y_i - w_t),    h <- h - alpha sum_i p_i (y_i - w_t),    w_t+1 = mean_i y_i -
    h / alpha

over the participants i; g_i and h start at zero. p_i is the weight of a client among all: 1/N of N
clients as in the paper, or its share of all images (`weighting: samples`). For unequal clients the
authors' code divides alpha by a client's relative number of images and averages plainly; it also
clips gradients at norm 10. Here alpha is one and nothing is clipped. Buffers are averaged. The
reported train loss includes all three terms.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from fedrepro.algorithms.base import (
    Batch,
    Client,
    ClientOutput,
    ClientUpdate,
    FedAvg,
    Server,
    Weights,
)
from fedrepro.config.types import Frozen, Positive


class FedDyn(FedAvg):
    class Params(Frozen):
        alpha: Positive = 0.01

    params: Params

    def initial_state(self, weights: Weights) -> Weights:
        return {name: torch.zeros_like(weights[name]) for name in self.trained}

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return g_i."""
        return {
            name: client.state.get(name, torch.zeros_like(received[name])) for name in self.trained
        }

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        pull = sum((batch.constants[name] * weights[name]).sum() for name in self.trained)
        distance = sum((weights[name] - received[name]).square().sum() for name in self.trained)
        return super().loss(weights, received, batch) - pull + 0.5 * self.params.alpha * distance

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        changes = {
            name: self.params.alpha * (weights[name] - received[name]) for name in self.trained
        }
        return ClientOutput(
            weights, {name: client.state.get(name, 0) - change for name, change in changes.items()}
        )

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        ends, alpha = self.average(weights, updates), self.params.alpha
        state = {
            name: h - alpha * server.share * (ends[name] - weights[name])
            for name, h in server.state.items()
        }
        return ends | {name: ends[name] - h / alpha for name, h in state.items()}, state
