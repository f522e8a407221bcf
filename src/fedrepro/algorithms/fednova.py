"""FedNova: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization, NeurIPS 2020.

Clients that take more steps get no more weight: each client's change is divided by the norm of its
gradients' weights a_i,

    x <- x - (sum_i p_i |a_i|) sum_i p_i (x - y_i) / |a_i|,    |a_i| = tau_i for plain SGD,
    |a_i| = (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho) with momentum rho, tau_i + rho
    times that with Nesterov's,

p_i the shares, tau_i the local steps. With equal tau_i this is FedAvg. Buffers (running statistics)
are averaged without this.
"""

from collections.abc import Iterable
from typing import ClassVar

import torch

from fedrepro.algorithms.base import Client, ClientUpdate, FedAvg, Server, Weights


class FedNova(FedAvg):
    supports_kept_momentum: ClassVar[bool] = False  # the norm assumes that momentum starts at 0
    assumes_sgd: ClassVar[bool] = True

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        totals = {
            name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in weights.items()
        }
        effective = 0.0
        for client, share, message in updates:
            steps = norm(client)
            effective += share * steps
            for name, total in totals.items():
                factor = share / steps if name in self.trained else share
                total.add_(weights[name].double() - message[name].double(), alpha=factor)
        for name in self.trained:
            totals[name] *= effective
        new = {name: weights[name].double() - total for name, total in totals.items()}
        return {
            name: (tensor if weights[name].is_floating_point() else tensor.round()).to(
                weights[name].dtype
            )
            for name, tensor in new.items()
        }, server.state


def norm(client: Client) -> float:
    """Return |a_i|_1, the number of plain gradients that a client's steps amount to."""
    rho, steps = client.momentum, client.steps
    heavy = (
        steps * (steps + 1) / 2
        if rho == 1
        else (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    )
    # a step is its gradient and rho times the new velocity
    return steps + rho * heavy if client.nesterov else heavy
