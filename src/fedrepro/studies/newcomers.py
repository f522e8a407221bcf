"""New clients: how fast a finished global model adapts to clients that it has never met.

Yao et al. 2019, Fig. 6, plots "local epochs to reach convergence for newly incoming clients" without saying how they were
measured; this is our reading. A new client sees images of the run's data in a pixel order of its own, which none of the run's
clients has. It receives what a participant of a next round would (E_g of FedFusion is that received extractor, frozen) and
trains as the run's clients do: batch size, augmentation, dropout, momentum and weight decay are the run's, the learning rate
that of its first round. It begins without momentum, and one optimiser serves all epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice, Count, Frozen, Share
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.studies.base import FinalWeightsStudy, Rows, StudyContext

if TYPE_CHECKING:
    import numpy as np
    import torch

    from fedrepro.algorithms.base import Weights
    from fedrepro.data.datasets import Dataset
    from fedrepro.data.partitions import Partition
    from fedrepro.training.federation import State

ADAPTATION_MEASURES = {"personal_accuracy": MEASURES["personal_accuracy"]}


class Params(Frozen):
    """How many epochs of local training does the global model need on each new client?"""

    clients: Count
    images: Count | None = None  # training images of each; null: as many as a client of the run holds
    target: Share  # own-test accuracy at which a new client counts as served
    epochs: Count  # a new client that is not served by then counts as such, never as served at the last epoch


class Study(FinalWeightsStudy):
    """A row per new client and epoch: its own-test accuracy, 0..1."""

    settings: Params
    title = "new clients"
    columns = ("client", "epoch", "accuracy")
    executor = "sequential"  # one client at a time

    def check(self) -> None:
        from fedrepro.data import datasets, partitions

        if not self.config.partition.options.get("permute_pixels"):
            raise UserError("new clients differ by their pixel order: partition.permute_pixels must be true")
        _, train, test = datasets.extent(self.config.dataset)
        train, proxy = self.config.train_images or train, self.config.proxy
        removed = partitions.proxy_size(proxy, train) if proxy and proxy.removed else 0
        for key, asked, kind, there in (
            ("images", self.settings.images or 0, "train", train - removed),
            ("clients", self.settings.clients, "test", self.config.test_images or test),
        ):
            if asked > there:
                raise UserError(f"{key}: the run's clients share {there} {kind} images (got {asked})")

    def units(self) -> Sequence[int]:
        return range(self.settings.clients)

    def rows_from(self, context: StudyContext, final: State) -> Callable[[int], Rows]:
        weights = (final.weights, final.server)
        return Adaptation(self.settings, self.config, context.dataset, weights, context.device).train_client

    def cost_bound(self, folder: Path) -> RunConfig:
        """If no client reaches the target."""
        from fedrepro.data import datasets

        _, train, _ = datasets.extent(self.config.dataset)
        options = self.config.partition.options
        if self.settings.images:
            clients = max(1, (self.config.train_images or train) // self.settings.images)
            options = options | {"clients": clients} | ({"whole": False} if "whole" in options else {})
        partition = Choice(name=self.config.partition.name, **options)
        changes = {"rounds": self.settings.epochs, "clients_per_round": self.settings.clients, "local_epochs": 1}
        return self.config.model_copy(update=changes | {"partition": partition, "measures": tuple(ADAPTATION_MEASURES)})


def draw_new_clients(settings: Params, config: RunConfig, dataset: Dataset) -> Partition:
    """The new clients of a run. Each draws its training images uniformly from those that the run's clients may hold, without
    replacement (two clients may share some), and a fresh pixel order; the test images are dealt to them in equal, disjoint
    parts. What the server holds stays."""
    import numpy as np

    from fedrepro.core import rng
    from fedrepro.data.partitions import Partition, images_for_clients, mean_client_images, proxy_images, subset

    train, test = subset(dataset, config.train_images, config.test_images)
    own = images_for_clients(config, len(train))
    images = settings.images or int(mean_client_images(config.partition, len(own)))
    pixels, numbers = dataset.train_x[0, 0].numel(), range(settings.clients)

    def draw(purpose: str, client: int = 0) -> np.random.Generator:
        return rng.numpy_generator(config.seed, f"newcomers-{purpose}", client=client)

    parts = [np.sort(own[draw("train", client).permutation(len(own))[:images]]) for client in numbers]
    tests = np.array_split(draw("test").permutation(len(test)), settings.clients)
    orders = np.stack([draw("permutation", client).permutation(pixels) for client in numbers])
    return Partition(parts, [np.sort(part) for part in tests], settings.clients, orders, proxy=proxy_images(config, len(train)))


class Adaptation:
    """The local trainings of a run's new clients, which start from its final weights and server state."""

    def __init__(
        self, settings: Params, config: RunConfig, dataset: Dataset, final: tuple[Weights, Weights], device: torch.device
    ) -> None:
        from fedrepro.training.federation import Federation, State
        from fedrepro.training.round import RoundExecution

        self.settings = settings
        self.config = config.model_copy(update={"clients_per_round": 1, "local_epochs": settings.epochs})
        self.federation = Federation(self.config, dataset, draw_new_clients(settings, config, dataset), device, "sequential")
        state = self.federation.state_to_device(State(config.rounds, *final))
        algorithm, server = self.federation.algorithm, self.federation.server_view(state)
        server = replace(server, state=algorithm.server_prepare(state.weights, server))
        self.received = algorithm.broadcast(state.weights, server)
        self.round = RoundExecution(self.federation, state, {})

    def train_client(self, client: int) -> Iterator[tuple[int, float]]:
        """(epoch, accuracy on the client's own test part, 0..1) from epoch 0, before its training, until the target is reached
        or the epochs are over. NaN, and the end, after an epoch with a loss that is not finite."""
        import torch

        from fedrepro.training.evaluation import evaluate

        algorithm, data, step = self.federation.algorithm, self.federation.data, self.federation.executor.step
        weights = {name: self.received[name].clone() for name in algorithm.names}
        velocity, part = step.velocity(weights, algorithm.trained), data.test_part(client, 0)
        feed = self.round.client_batches(self.round.client(client), self.round.create_task(self.received))
        batches = len(feed.sizes) // self.settings.epochs
        for epoch in range(self.settings.epochs + 1):
            steps = range((epoch - 1) * batches, epoch * batches) if epoch else ()
            losses = [step(weights, velocity, self.received, feed.batch(number), self.config.lr) for number in steps]
            if losses and not torch.stack(losses).isfinite().all():
                yield epoch, float("nan")
                return
            own = algorithm.personalised_weights(weights, self.received)
            accuracy = evaluate(algorithm, ADAPTATION_MEASURES, own, *part, self.federation.chunk)["personal_accuracy"]
            yield epoch, accuracy
            if accuracy >= self.settings.target:
                return
