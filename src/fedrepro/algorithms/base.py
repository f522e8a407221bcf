"""FedAvg (McMahan et al. 2017), and with it the hooks that any other method may replace.

`Weights` is a plain dictionary name -> tensor with all parameters and buffers of the trained network. A hook is a pure function
of its arguments, so that one executor may call it client by client and another may run it over stacked clients.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from fedrepro.config import Frozen
from fedrepro.models import Outputs

Weights = dict[str, Tensor]


class FedAvg:
    """Local SGD on the cross entropy, then the weighted mean of the clients' weights."""

    class Params(Frozen):
        pass

    neutral: ClassVar[dict | None] = {}  # the Params at which the method equals FedAvg; None where there are none

    def __init__(self, params: Params, net: nn.Module) -> None:
        self.params = params
        self.net = self.wrap(net)
        self.names = tuple(self.net.state_dict())

    def wrap(self, net: nn.Module) -> nn.Module:
        """The network that is trained: `net`, or a module around it."""
        return net

    def forward(self, weights: Weights, images: Tensor) -> Outputs:
        """The trained network at `weights`, which may hold other tensors beside the network's."""
        return functional_call(self.net, {name: weights[name] for name in self.names}, (images,))

    # the server, before a round

    def start(self, weights: Weights) -> Weights:
        """The server's own state before round 1."""
        return {}

    def broadcast(self, weights: Weights, server: Weights) -> Weights:
        """What each participant receives; its size is counted as bytes sent down."""
        return weights

    # a client, in its local training

    def frozen(self, received: Weights, images: Tensor) -> tuple[Tensor, ...]:
        """Per-image results of the received, unchanging network that the loss needs, a row for each of `images`; the engine
        evaluates this once per image and round where images are not augmented."""
        return ()

    def loss(self, weights: Weights, received: Weights, frozen: tuple[Tensor, ...], images: Tensor, labels: Tensor) -> Tensor:
        """The local objective on one batch: images (B, C, H, W), labels (B,), `frozen` the batch's rows. Returns a scalar."""
        return F.cross_entropy(self.forward(weights, images).logits, labels)

    def upload(self, weights: Weights) -> Weights:
        """What a client returns; its size is counted as bytes sent up."""
        return weights

    # the server, after a round

    def aggregate(
        self, weights: Weights, server: Weights, uploads: list[Weights], shares: list[float]
    ) -> tuple[Weights, Weights]:
        """New global weights and server state from the uploads; `shares` sum to 1."""
        return {name: mean([upload[name] for upload in uploads], shares) for name in weights}, server


def mean(tensors: list[Tensor], shares: list[float]) -> Tensor:
    """Weighted mean, summed in float64 in the given order; integers (batch counters) are rounded."""
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor, share in zip(tensors, shares, strict=True):
        total.add_(tensor.to(torch.float64), alpha=share)
    return (total if tensors[0].is_floating_point() else total.round()).to(tensors[0].dtype)
