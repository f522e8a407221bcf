"""FedCL: Yao, Sun, Continual Local Training for Better Initialization of Federated Models, ICIP
2020, Eq. 1-3.

Local loss: cross entropy + weight * sum_i Omega_i (w_i - w_t,i)^2, w_t the weights received; there
is no 1/2. Omega is the importance of each weight of the global model on the server's own images
(`proxy`). The server estimates it in every `every`-th round, the first included, and sends it
along; its bytes are counted. `importance` names its definition (algorithms/_importance.py); the
default is that of the authors' code, one number for each tensor. `fallback` says what happens in
the other rounds: each client estimates Omega on its own images at the start of its local training
(`local`, the code), Omega is 1 (`identity`, the paper's algorithm), or there is no penalty
(`none`). With `importance: identity` Omega is 1 in every round: FedProx with mu twice the weight.
"""

from collections.abc import Iterable
from typing import Literal

from torch import Tensor

from fedrepro.algorithms._importance import importance
from fedrepro.algorithms.base import Batch, Client, FedAvg, Server, Weights
from fedrepro.config.types import Count, Frozen, NonNegative

Importance = Literal[
    "layer_squares", "layer_norm", "layer_outputs", "model_norm", "absolute", "fisher", "identity"
]
OMEGA = "omega."  # prefix of the names of weights


class FedCL(FedAvg):
    class Params(Frozen):
        weight: NonNegative = 0.5
        importance: Importance = "layer_squares"
        every: Count = 1
        fallback: Literal["local", "identity", "none"] = "local"

    params: Params

    @classmethod
    def needs_proxy(cls, params: Params) -> bool:
        return params.importance != "identity"

    def server_prepare(self, weights: Weights, server: Server) -> Weights:
        """Return Omega in the rounds in which it is sent."""
        if self.params.importance == "identity" or (server.round - 1) % self.params.every:
            return {}
        return {
            OMEGA + name: value
            for name, value in self._estimate_omega(weights, server.proxy()).items()
        }

    def broadcast(self, weights: Weights, server: Server) -> Weights:
        return weights | server.state

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return Omega on the client's own images, if the settings ask for it and none was
        received."""
        estimates = self.params.importance != "identity" and self.params.fallback == "local"
        return (
            self._estimate_omega(received, client.estimation_batches())
            if estimates and not _has_omega(received)
            else {}
        )

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        fitted = super().loss(weights, received, batch)
        if (
            self.params.importance != "identity"
            and self.params.fallback == "none"
            and not _has_omega(received)
        ):
            return fitted
        omega = {
            name: received.get(OMEGA + name, batch.constants.get(name, 1)) for name in self.trained
        }
        return fitted + self.params.weight * sum(
            (omega[name] * (weights[name] - received[name]).square()).sum() for name in self.trained
        )

    def _estimate_omega(self, weights: Weights, batches: Iterable[Batch]) -> Weights:
        return importance(self.params.importance, self, weights, batches)


def _has_omega(received: Weights) -> bool:
    return any(name.startswith(OMEGA) for name in received)
