"""New clients: how fast a finished global model adapts to clients that it has never met.

Yao et al. 2019, Fig. 6, plots "local epochs to reach convergence for newly incoming clients" without saying how they were
measured; this is our reading. A new client sees images of the run's data in a pixel order of its own, which none of the run's
clients has. It receives what a participant of a next round would (E_g of FedFusion is that received extractor, frozen) and
trains as the run's clients do: batch size, augmentation, dropout, momentum and weight decay are the run's, the learning rate
that of its first round. Unlike in a round, one optimiser serves all epochs: its momentum never restarts.
"""

from collections.abc import Iterator

import numpy as np
import torch

from fedrepro import rng
from fedrepro.algorithms.base import Weights
from fedrepro.config import Newcomers, RunConfig
from fedrepro.datasets import Dataset
from fedrepro.engine.evaluation import measured
from fedrepro.engine.federation import Federation, State
from fedrepro.engine.round import Round
from fedrepro.measures import MEASURES
from fedrepro.partitions import Partition, subset

OWN = {"personal_accuracy": MEASURES["personal_accuracy"]}


def invite(settings: Newcomers, config: RunConfig, dataset: Dataset) -> Partition:
    """The new clients of a run. Each draws its training images uniformly from those of the run, without replacement (two
    clients may share some), and a fresh pixel order; the test images are dealt to them in equal, disjoint parts."""
    train, test = subset(dataset, config.train_images, config.test_images)
    held = settings.images or len(train) // config.partition.options["clients"]
    pixels, numbers = dataset.train_x[0, 0].numel(), range(settings.clients)

    def draw(purpose: str, client: int = 0) -> np.random.Generator:
        return rng.numpy_generator(config.seed, f"newcomers-{purpose}", client=client)

    parts = [np.sort(draw("train", client).permutation(len(train))[:held]) for client in numbers]
    tests = np.array_split(draw("test").permutation(len(test)), settings.clients)
    orders = np.stack([draw("permutation", client).permutation(pixels) for client in numbers])
    return Partition(parts, [np.sort(part) for part in tests], settings.clients, orders)


class Adaptation:
    """The local trainings of a run's new clients, which start from its final weights and server state."""

    def __init__(
        self, settings: Newcomers, config: RunConfig, dataset: Dataset, final: tuple[Weights, Weights], device: torch.device
    ) -> None:
        self.settings = settings
        self.config = config.model_copy(update={"clients_per_round": 1, "local_epochs": settings.epochs})
        self.federation = Federation(self.config, dataset, invite(settings, config, dataset), device, "sequential")
        state = self.federation.placed(State(config.rounds, *final))
        self.received = self.federation.algorithm.broadcast(state.weights, self.federation.server(state, 1))
        self.round = Round(self.federation, state, {})

    def follow(self, client: int) -> Iterator[tuple[int, float]]:
        """(epoch, accuracy on the client's own test part, 0..1) from epoch 0, before its training, until the target is reached
        or the epochs are over. NaN, and the end, after an epoch with a loss that is not finite."""
        algorithm, data, step = self.federation.algorithm, self.federation.data, self.federation.executor.step
        weights = {name: self.received[name].clone() for name in algorithm.names}
        velocity, part = step.velocity(weights, algorithm.trained), data.test_part(client, 0)
        feed = self.round.feed(self.received, self.round.client(client))
        batches = len(feed.sizes) // self.settings.epochs
        for epoch in range(self.settings.epochs + 1):
            steps = range((epoch - 1) * batches, epoch * batches) if epoch else ()
            losses = [step(weights, velocity, self.received, feed.batch(number), self.config.lr) for number in steps]
            if losses and not torch.stack(losses).isfinite().all():
                yield epoch, float("nan")
                return
            own = algorithm.personal(weights, self.received)
            accuracy = measured(algorithm, OWN, own, *part, self.federation.chunk)["personal_accuracy"]
            yield epoch, accuracy
            if accuracy >= self.settings.target:
                return
