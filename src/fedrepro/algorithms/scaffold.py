"""SCAFFOLD: Karimireddy et al., Stochastic Controlled Averaging for Federated Learning, ICML 2020,
Alg. 1, option II.

Every local step follows g(y) - c_i + c: the control c_i of the client and c of the server say how
far its gradients lie from those of all. That is the slope of the local loss + <c - c_i, y>. After K
steps of rate lr from x to y,

    c_i' = c_i - c + (x - y) / (|a| lr),    x <- x + server_lr * mean_i (y - x),    c <- c + sum_i
    p_i (c_i' - c_i)

over the participants i. p_i is the weight of a client among all: 1/N of N clients as in the paper,
or its share of all images (`weighting: samples`). So c stays sum_k p_k c_k over all clients k,
whichever take part. The mean uses the same weights as in other methods. All controls start at zero.
|a| is K for plain SGD, as in the paper; with momentum it is FedNova's norm, so that (x - y) / (|a|
lr) still is a mean gradient. Sends twice FedAvg's bytes, down and up. The reported train loss
includes <c - c_i, y>, and may be negative.
"""

from collections.abc import Iterable
from typing import ClassVar

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
from fedrepro.algorithms.fednova import norm
from fedrepro.config.types import Frozen, Positive

CONTROL = "control."  # prefix of the names of weights


class SCAFFOLD(FedAvg):
    supports_kept_momentum: ClassVar[bool] = False  # the norm assumes that momentum starts at 0
    assumes_sgd: ClassVar[bool] = True

    class Params(Frozen):
        server_lr: Positive = 1.0

    params: Params

    def initial_state(self, weights: Weights) -> Weights:
        return {CONTROL + name: torch.zeros_like(weights[name]) for name in self.trained}

    def broadcast(self, weights: Weights, server: Server) -> Weights:
        return weights | server.state

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return c - c_i."""
        return {name: received[CONTROL + name] - client.state.get(name, 0) for name in self.trained}

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        pull = sum((batch.constants[name] * weights[name]).sum() for name in self.trained)
        return super().loss(weights, received, batch) + pull

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        """Return y, and c_i' - c_i = -c + (x - y) / (|a| lr)."""
        length = norm(client) * client.lr
        change = {
            name: (received[name] - weights[name]) / length - received[CONTROL + name]
            for name in self.trained
        }
        state = {name: client.state.get(name, 0) + tensor for name, tensor in change.items()}
        return ClientOutput(
            weights | {CONTROL + name: tensor for name, tensor in change.items()}, state
        )

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        ends = self.average(weights | server.state, updates)
        state = {
            name: control + server.share * ends[name] for name, control in server.state.items()
        }
        moved = {
            name: weights[name] + self.params.server_lr * (ends[name] - weights[name])
            for name in self.trained
        }
        return {name: moved.get(name, ends[name]) for name in weights}, state
