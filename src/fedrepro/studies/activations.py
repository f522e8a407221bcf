"""Divergence between clients' activations after their local training.

Chen et al. 2020 (FedMAX), Fig. 2: in every round each participant's activation is averaged over its training images, and the
softmax of that mean is compared with the softmax of the mean over participants. The released code averages during the client's
training, while weights change; here the network after training is used, so that the result of a round is well defined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedrepro.config.types import Count, Frozen
from fedrepro.studies.base import RoundsStudy

if TYPE_CHECKING:
    from torch import Tensor

    from fedrepro.training.federation import Federation
    from fedrepro.training.replay import ReplayedRound
    from fedrepro.training.round import LocalTraining

CHUNK = 500  # images per forward pass


class Params(Frozen):
    every: Count = 1  # in rounds 1, 1 + every, 1 + 2 every, ...


class Study(RoundsStudy):
    """A row for each round and participant; the figure shows the mean over the participants of a round."""

    settings: Params
    title = "activations"
    columns = ("round", "client", "divergence")

    def rounds(self) -> Sequence[int]:
        return range(1, self.config.rounds + 1, self.settings.every)

    def measure(self, federation: Federation, replayed: ReplayedRound) -> Iterator[tuple[int, float]]:
        import torch

        means = [mean_activation(federation, replayed.round, trained) for trained in replayed.last_trainings.values()]
        yield from zip(replayed.last_trainings, divergences(torch.stack(means)).tolist(), strict=True)


def mean_activation(federation: Federation, round: int, trained: LocalTraining) -> Tensor:
    """Return a participant's mean penultimate activation (D,) in float64, over its training images, each augmented once."""
    import torch

    from fedrepro.core import rng

    data, algorithm = federation.data, federation.algorithm
    client, weights = trained.client.number, algorithm.personalised_weights(trained.weights, trained.received)
    index = data.train_index(client, round)
    changes = rng.generator(federation.config.seed, "activations", round, client) if data.config.augment else None
    total = torch.zeros((), dtype=torch.float64, device=index.device)
    with torch.no_grad():
        for chunk in index.split(CHUNK):
            outputs = algorithm.forward(weights, data.images(chunk, client, changes))
            total = total + outputs.penultimate.double().sum(0)
    return total / len(index)


def divergences(means: Tensor) -> Tensor:
    """Return KL(softmax(a_k) || softmax(a)) / D for each row a_k of `means` (K, D), where a is their mean; (K,), nats per
    unit."""
    log_p, log_q = means.log_softmax(1), means.mean(0).log_softmax(0)
    return (log_p.exp() * (log_p - log_q)).sum(1) / means.shape[1]
