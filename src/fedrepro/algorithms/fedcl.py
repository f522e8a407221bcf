"""FedCL: Yao, Sun, Continual Local Training for Better Initialization of Federated Models, ICIP 2020, Eq. 1-3.

Local loss: cross entropy + weight * sum_i Omega_i (w_i - w_t,i)^2, w_t the weights received; there is no 1/2. Omega is how much
each weight of the global model matters on images that the server holds (`proxy`), estimated in every `every`-th round, the
first included, and sent along then: what it costs is counted. `importance` names its definition (algorithms/_importance.py);
the default is that of the authors' code, one number for each tensor. `fallback` says what happens in the other rounds: each
client estimates Omega on its own images at the start of its local training (`local`, the code), Omega is 1 (`identity`, the
paper's algorithm), or there is no penalty (`none`). `importance: identity` is 1 in every round, and FedProx with mu twice the
weight.
"""

from typing import ClassVar, Literal

from torch import Tensor

from fedrepro.algorithms._importance import importance
from fedrepro.algorithms.base import Batch, Client, FedAvg, Server, Weights
from fedrepro.config.types import Count, Frozen, NonNegative

OMEGA = "omega."  # before the names of what it belongs to


class Algorithm(FedAvg):
    class Params(Frozen):
        weight: NonNegative = 0.5
        importance: Literal["layer_squares", "layer_norm", "layer_outputs", "absolute", "fisher", "identity"] = "layer_squares"
        every: Count = 1
        fallback: Literal["local", "identity", "none"] = "local"

    fedavg_params: ClassVar[dict] = {"weight": 0.0}

    @classmethod
    def needs_proxy(cls, params: Params) -> bool:
        return params.importance != "identity"

    def server_prepare(self, weights: Weights, server: Server) -> Weights:
        """Omega, in the rounds in which it is sent."""
        if self.params.importance == "identity" or (server.round - 1) % self.params.every:
            return {}
        return {OMEGA + name: value for name, value in self._estimated(weights, server.proxy()).items()}

    def broadcast(self, weights: Weights, server: Server) -> Weights:
        return weights | server.state

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Omega on the client's own images, where none came and the client has to know."""
        estimates = self.params.importance != "identity" and self.params.fallback == "local"
        return self._estimated(received, client.batches()) if estimates and not _sent(received) else {}

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        fitted = super().loss(weights, received, batch)
        if self.params.importance != "identity" and self.params.fallback == "none" and not _sent(received):
            return fitted
        omega = {name: received.get(OMEGA + name, batch.constants.get(name, 1)) for name in self.trained}
        return fitted + self.params.weight * sum(
            (omega[name] * (weights[name] - received[name]).square()).sum() for name in self.trained
        )

    def _estimated(self, weights: Weights, batches) -> Weights:
        return importance(self.params.importance, self, weights, batches)


def _sent(received: Weights) -> bool:
    return any(name.startswith(OMEGA) for name in received)
