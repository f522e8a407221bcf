"""MOON: Li, He, Song, Model-Contrastive Federated Learning, CVPR 2021, Eq. 3 and 4.

Local loss: cross entropy + mu * mean over the images of

    -log(exp(cos(z, z_t) / tau) / (exp(cos(z, z_t) / tau) + exp(cos(z, z_i) / tau)))

z, z_t and z_i are the values that enter the last layer, of the trained network, of the received
one, and of the client's own at the end of its last training. In a client's first round z_i = z_t,
and the term is constant. The paper puts a projection of two layers before the last layer of its
networks; here the networks are those of the other methods.
"""

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from fedrepro.algorithms.base import Batch, Client, ClientOutput, FedAvg, Weights
from fedrepro.config.types import Frozen, NonNegative, Positive


class MOON(FedAvg):
    class Params(Frozen):
        mu: NonNegative = 1.0
        temperature: Positive = 0.5  # tau

    params: Params
    needs_hidden_layer: ClassVar[bool] = True

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return the client's last weights."""
        return {name: client.state.get(name, received[name]) for name in self.names}

    def reference_outputs(
        self, received: Weights, images: Tensor, constants: Weights
    ) -> tuple[Tensor, ...]:
        return tuple(self.forward(weights, images).penultimate for weights in (received, constants))

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        outputs = self.outputs(weights, batch)
        to_global, to_own = (
            F.cosine_similarity(outputs.penultimate, z) for z in batch.reference_outputs
        )
        contrast = F.softplus((to_own - to_global) / self.params.temperature).mean()
        return self.task_loss(outputs, batch) + self.params.mu * contrast

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        return ClientOutput(weights, weights)
