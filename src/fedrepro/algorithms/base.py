"""FedAvg (McMahan et al. 2017), and with it the hooks that any other method may replace.

`Weights` is a plain dictionary name -> tensor with all parameters and buffers of the trained network. A hook is a pure function
of its arguments, so that one executor may call it client by client and another may run it over stacked clients.
"""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from fedrepro.config import Frozen
from fedrepro.models import Net, Outputs

Weights = dict[str, Tensor]


class Batch(NamedTuple):
    """What the local objective sees: images (B, C, H, W), labels (B,), what `frozen` gave for each of the images, and where
    dropout is on its masks (`models.dropout_masks`)."""

    images: Tensor
    labels: Tensor
    frozen: tuple[Tensor, ...] = ()
    masks: tuple[Tensor, ...] = ()


class FedAvg:
    """Local SGD on the cross entropy, then the weighted mean of the clients' weights."""

    class Params(Frozen):
        pass

    neutral: ClassVar[dict | None] = {}  # the Params at which the method equals FedAvg; None where there are none

    def __init__(self, params: Params, net: Net, generator: torch.Generator) -> None:
        self.params = params
        self.net = self.wrap(net, generator).eval()  # the engine switches to training mode where it trains
        self.names = tuple(self.net.state_dict())

    def wrap(self, net: Net, generator: torch.Generator) -> Net:
        """The network that is trained: `net`, or one made from it, its new weights drawn from `generator`."""
        return net

    def forward(self, weights: Weights, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """The trained network at `weights`, which may hold other tensors beside the network's."""
        return self.call(weights, images, masks)

    def call(self, weights: Weights, *inputs) -> Outputs:
        """The network's own forward pass with these of its `weights`."""
        return functional_call(self.net, {name: weights[name] for name in self.names}, inputs)

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

    @property
    def looks_back(self) -> bool:
        """Whether the loss needs `frozen`."""
        return type(self).frozen is not FedAvg.frozen

    def outputs(self, weights: Weights, batch: Batch) -> Outputs:
        """What the local objective sees of the trained network."""
        return self.forward(weights, batch.images, batch.masks)

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        """The local objective on one batch, a scalar."""
        return cross_entropy(self.outputs(weights, batch).logits, batch.labels)

    def personal(self, weights: Weights, received: Weights) -> Weights:
        """What a client is tested with after its local training: its weights, and what it needs beside them."""
        return weights

    def upload(self, weights: Weights) -> Weights:
        """What a client returns; its size is counted as bytes sent up."""
        return weights

    # the server, after a round

    def tested(self, weights: Weights, server: Weights) -> Weights:
        """What the global model is tested with: its weights, and what it needs beside them."""
        return weights

    def aggregate(
        self, weights: Weights, server: Weights, uploads: Iterable[Weights], shares: list[float]
    ) -> tuple[Weights, Weights]:
        """New global weights and server state. `uploads` come one by one as the clients finish, to be read once: a mean then
        needs the memory of one client, however many take part. `shares` sum to 1."""
        return mean(weights, uploads, shares), server


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over a batch of -log softmax(logits)[label]. torch's own also asks which labels to ignore, which costs clients that
    train together a third of a small step."""
    return -logits.log_softmax(1).gather(1, labels[:, None]).mean()


def mean(like: Weights, uploads: Iterable[Weights], shares: list[float]) -> Weights:
    """Weighted mean of the tensors named in `like`, summed in float64 in the given order; integers (counters) are rounded."""
    totals = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in like.items()}
    for upload, share in zip(uploads, shares, strict=True):
        for name, total in totals.items():
            total.add_(upload[name], alpha=share)
    return {
        name: (total if like[name].is_floating_point() else total.round()).to(like[name].dtype)
        for name, total in totals.items()
    }
