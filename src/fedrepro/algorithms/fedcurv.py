"""FedCurv: Shoham et al., Overcoming Forgetting in Federated Learning on Non-IID Data,
arXiv:1910.07796 (2019).

Local loss of client k: cross entropy + weight * sum_{j != k} (w - w_j)' diag(I_j) (w - w_j), w_j
the weights with which client j ended its last training, I_j the diagonal of its Fisher matrix
there, on its own images. Up to a constant that is

    weight * (w' A w - 2 w' b),    A = sum_{j != k} I_j,    b = sum_{j != k} I_j w_j

so that the server keeps two sums, and a client subtracts its own part of them. Clients send the
change of their part, which is the paper's I_k and I_k w_k if all take part in every round; a client
that does not take part counts with what it sent last. Bytes down and up are three times FedAvg's.
The reported train loss lacks the constant, and may be negative. The sums and the clients' parts are
in double precision: the curvature falls by orders of magnitude, and rounding errors of its first
values would remain in the sums.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from fedrepro.algorithms._importance import importance
from fedrepro.algorithms.base import (
    Batch,
    Client,
    ClientOutput,
    ClientUpdate,
    FedAvg,
    Server,
    Weights,
)
from fedrepro.config.types import Frozen, NonNegative

CURVATURE, PULL = "curvature.", "pull."  # prefixes of the names of weights: I and I w


class FedCurv(FedAvg):
    class Params(Frozen):
        weight: NonNegative = 1.0

    params: Params

    def initial_state(self, weights: Weights) -> Weights:
        return {
            kind + name: torch.zeros_like(weights[name]).double()
            for kind in (CURVATURE, PULL)
            for name in self.trained
        }

    def broadcast(self, weights: Weights, server: Server) -> Weights:
        like = weights[self.trained[0]]
        return weights | {name: total.to(like.dtype) for name, total in server.state.items()}

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return A and b."""
        kinds = [kind + name for kind in (CURVATURE, PULL) for name in self.trained]
        return {
            name: (received[name] - client.state.get(name, 0)).to(received[name].dtype)
            for name in kinds
        }

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        pulls = (
            (
                batch.constants[CURVATURE + name] * weights[name].square()
                - 2 * batch.constants[PULL + name] * weights[name]
            ).sum()
            for name in self.trained
        )
        return super().loss(weights, received, batch) + self.params.weight * sum(pulls)

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        """Return the weights and the change of I and I w."""
        fisher = importance("fisher", self, weights, client.estimation_batches())
        parts = {CURVATURE + name: value for name, value in fisher.items()}
        parts |= {PULL + name: value * weights[name] for name, value in fisher.items()}
        before = {
            name: client.state.get(name, torch.zeros_like(value).double())
            for name, value in parts.items()
        }
        change = {name: (value - before[name]).to(value.dtype) for name, value in parts.items()}
        return ClientOutput(
            weights | change, {name: before[name] + value for name, value in change.items()}
        )

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        sums = dict(server.state)

        def added() -> Iterator[ClientUpdate]:
            for item in updates:
                sums.update({name: total + item.message[name] for name, total in sums.items()})
                yield item

        return self.average(weights, added()), sums
