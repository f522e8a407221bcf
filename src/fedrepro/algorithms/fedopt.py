"""FedAdam and FedYogi: Reddi et al., Adaptive Federated Optimization, ICLR 2021, Alg. 2.

Clients train as in FedAvg. The server takes the mean change d = mean_i (y_i - x) as the gradient of
an adaptive step,

    m <- beta1 m + (1 - beta1) d,    x <- x + server_lr * m / (sqrt(v) + tau),
    v <- beta2 v + (1 - beta2) d^2 (adam),    v <- v - (1 - beta2) d^2 sign(v - d^2) (yogi)

m starts at zero, v at tau^2. As in the paper there is no bias correction. The mean uses the same
weights as in other methods. Buffers are averaged.
"""

from collections.abc import Iterable
from typing import Literal

import torch

from fedrepro.algorithms.base import ClientUpdate, FedAvg, Server, Weights
from fedrepro.config.types import Frozen, Positive, Rate

M, V = "m.", "v."  # prefixes of the names of weights


class FedOpt(FedAvg):
    class Params(Frozen):
        optimizer: Literal["adam", "yogi"] = "adam"
        server_lr: Positive = 0.01
        beta1: Rate = 0.9
        beta2: Rate = 0.99
        tau: Positive = 0.001

    params: Params

    def initial_state(self, weights: Weights) -> Weights:
        first = {M + name: torch.zeros_like(weights[name]) for name in self.trained}
        return first | {
            V + name: torch.full_like(weights[name], self.params.tau**2) for name in self.trained
        }

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        new, state, params = self.average(weights, updates), {}, self.params
        for name in self.trained:
            change, v = new[name] - weights[name], server.state[V + name]
            squares = change.square()
            difference = (
                v - squares if params.optimizer == "adam" else squares * (v - squares).sign()
            )
            state[M + name] = params.beta1 * server.state[M + name] + (1 - params.beta1) * change
            state[V + name] = v - (1 - params.beta2) * difference
            new[name] = weights[name] + params.server_lr * state[M + name] / (
                state[V + name].sqrt() + params.tau
            )
        return new, state
