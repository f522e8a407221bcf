"""How far apart the clients' activations are after their local training.

Chen et al. 2020 (FedMAX), Fig. 2: in every round each participant's activation is averaged over its training images, and the
softmax of that mean is compared with the softmax of the mean over participants. The released code averages while the client
trains, with weights that change; here the network is the one that the client ends with, so that a round has one answer.
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
    """In which rounds."""

    every: Count = 1  # 1, 1 + every, 1 + 2 every, ...


class Study(RoundsStudy):
    """A row per round and participant; the figure shows their mean over the participants of a round."""

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
    """A participant's mean penultimate activation (D,) over its training images, augmented once where they are, in float64."""
    import torch

    from fedrepro.core import rng

    data, algorithm = federation.data, federation.algorithm
    client, own = trained.client.number, algorithm.personalised_weights(trained.weights, trained.received)
    index = data.train_index(client, round)
    changes = rng.generator(federation.config.seed, "activations", round, client) if data.config.augment else None
    total = 0
    with torch.no_grad():
        for chunk in index.split(CHUNK):
            total += algorithm.forward(own, data.images(chunk, client, changes)).penultimate.double().sum(0)
    return total / len(index)


def divergences(means: Tensor) -> Tensor:
    """KL(softmax(a_k) || softmax(a)) / D of each row a_k of `means` (K, D), where a is their mean: nats per unit, (K,)."""
    own, shared = means.log_softmax(1), means.mean(0).log_softmax(0)
    return (own.exp() * (own - shared)).sum(1) / means.shape[1]
