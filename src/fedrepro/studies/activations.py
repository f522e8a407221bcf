"""Divergence between clients' activations after their local training.

Chen et al. 2020 (FedMAX), Fig. 2: in every round each participant's activation is averaged over its
training images, and the softmax of that mean is compared with the softmax of the mean over
participants. The released code averages during the client's training, while weights change; here
the network after training is used, so that the result of a round is well defined.
"""

import functools
import operator
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fedrepro.config.types import Count, Frozen
from fedrepro.core import rng
from fedrepro.studies.base import RoundsStudy
from fedrepro.training.federation import Federation
from fedrepro.training.replay import ReplayedRound
from fedrepro.training.round import LocalTraining

CHUNK = 500  # images per forward pass


class Activations(RoundsStudy):
    """A row for each round and participant; the figure shows the mean over the participants of a
    round."""

    class Params(Frozen):
        every: Count = 1  # in rounds 1, 1 + every, 1 + 2 every, ...

    settings: Params
    title = "activations"
    columns = ("round", "client", "divergence")

    def rounds(self) -> Sequence[int]:
        return range(1, self.config.rounds + 1, self.settings.every)

    def measure(
        self, federation: Federation, replayed: ReplayedRound
    ) -> Iterator[tuple[int, float]]:
        means = [
            mean_activation(federation, replayed.round, trained)
            for trained in replayed.last_trainings.values()
        ]
        yield from zip(
            replayed.last_trainings, divergences(torch.stack(means)).tolist(), strict=True
        )


def mean_activation(federation: Federation, round: int, trained: LocalTraining) -> Tensor:
    """Return a participant's mean penultimate activation (D,) in float64, over its training images,
    each augmented once."""
    client, index = trained.client.number, federation.data.train_index(trained.client.number, round)
    changes = (
        rng.generator(federation.config.seed, "activations", round, client)
        if federation.config.augment
        else None
    )
    sums = [part.sum(0) for part in penultimate(federation, trained, index, changes)]
    return functools.reduce(operator.add, sums) / len(index)


def penultimate(
    federation: Federation,
    trained: LocalTraining,
    index: Tensor,
    changes: torch.Generator | None = None,
) -> Iterator[Tensor]:
    """Yield the penultimate activations (images, D) in float64 of a participant's images, in
    chunks, by its own network after its local training. `changes` draws their augmentation; None:
    none."""
    algorithm, client = federation.algorithm, trained.client.number
    weights = algorithm.personalised_weights(trained.weights, trained.received)
    for chunk in index.split(CHUNK):
        with torch.no_grad():
            outputs = algorithm.forward(weights, federation.data.images(chunk, client, changes))
        yield outputs.penultimate.double()


def drawn_images(
    federation: Federation, round: int, trained: LocalTraining, purpose: str
) -> Tensor:
    """Return the indices of a participant's training images in a random order, the same one in
    every round."""
    client = trained.client.number
    index = federation.data.train_index(client, round)
    order = torch.randperm(
        len(index), generator=rng.generator(federation.config.seed, purpose, client=client)
    )
    return index[order.to(index.device)]


def divergences(means: Tensor) -> Tensor:
    """Return KL(softmax(a_k) || softmax(a)) / D for each row a_k of `means` (K, D), where a is
    their mean; (K,), nats per unit."""
    log_p, log_q = means.log_softmax(1), means.mean(0).log_softmax(0)
    return (log_p.exp() * (log_p - log_q)).sum(1) / means.shape[1]
