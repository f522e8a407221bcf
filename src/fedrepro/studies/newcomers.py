"""New clients: how fast a finished global model adapts to clients that took no part in its
training.

Yao et al. 2019, Fig. 6, plots "local epochs to reach convergence for newly incoming clients"
without saying how they were measured; this is our reading. A new client has images of the run's
data in a pixel order of its own, which none of the run's clients has. It receives what a
participant of the next round would (E_g of FedFusion is that received extractor, frozen) and trains
as the run's clients do: batch size, augmentation, dropout, momentum and weight decay are the run's,
the learning rate that of its first round. It begins without momentum, and one optimiser is used for
all epochs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedrepro.algorithms.base import Weights
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Choice, Count, Frozen, Share
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import (
    Partition,
    images_for_clients,
    mean_client_images,
    proxy_images,
    subset,
)
from fedrepro.studies.base import FINAL, Rows, Study, StudyContext, final_state
from fedrepro.training.evaluation import evaluate
from fedrepro.training.federation import Federation, State
from fedrepro.training.round import RoundExecution

ADAPTATION_MEASURES = {"personal_accuracy": MEASURES["personal_accuracy"]}


class Newcomers(Study):
    """A row for each new client and epoch: its own-test accuracy, 0..1. A diverged run has no final
    weights, so that its table is empty."""

    class Params(Frozen):
        clients: Count
        # training images of each; null: as many as a client of the run has
        images: Count | None = None
        target: Share  # own-test accuracy that a new client has to reach
        epochs: Count  # after which a new client counts as not having reached it

    settings: Params
    title = "new clients"
    columns = ("client", "epoch", "accuracy")
    executor = "sequential"  # one client at a time

    def check(self) -> None:
        if not self.config.partition.options.get("permute_pixels"):
            raise UserError(
                "new clients differ by their pixel order: partition.permute_pixels must be true"
            )
        if self.config.validation:
            raise UserError(
                "new clients may draw the images that validation holds out: leave validation out"
            )
        _, train, test = datasets.extent(self.config.dataset)
        train, proxy = self.config.train_images or train, self.config.proxy
        removed = partitions.proxy_size(proxy, train) if proxy and proxy.removed else 0
        for key, value, kind, available in (
            ("images", self.settings.images or 0, "train", train - removed),
            ("clients", self.settings.clients, "test", self.config.test_images or test),
        ):
            if value > available:
                raise UserError(
                    f"{key}: the run's clients share {available} {kind} images (got {value})"
                )

    def units(self) -> Sequence[int]:
        return range(self.settings.clients)

    def can_start(self, folder: Path) -> bool:
        return (folder / FINAL).exists()

    def begin(self, context: StudyContext) -> Callable[[int], Rows]:
        final = final_state(context, self.title)
        if final.diverged:
            return lambda unit: ()
        weights = (final.weights, final.server)
        return Adaptation(
            self.settings, self.config, context.dataset, weights, context.device
        ).train_client

    def cost_bound(self, folder: Path) -> RunConfig:
        """Return a run that costs as much as the study if no client reaches the target."""
        _, train, _ = datasets.extent(self.config.dataset)
        options = self.config.partition.options
        if self.settings.images:
            clients = max(1, (self.config.train_images or train) // self.settings.images)
            options = (
                options | {"clients": clients} | ({"whole": False} if "whole" in options else {})
            )
        partition = Choice(name=self.config.partition.name, **options)
        changes = {
            "rounds": self.settings.epochs,
            "clients_per_round": self.settings.clients,
            "local_epochs": 1,
        }
        return self.config.model_copy(
            update=changes | {"partition": partition, "measures": tuple(ADAPTATION_MEASURES)}
        )


def draw_new_clients(settings: Newcomers.Params, config: RunConfig, dataset: Dataset) -> Partition:
    """Draw the new clients of a run.

    Each draws its training images uniformly from those that the run's clients may have, without
    replacement (two clients may share some), and a pixel order. The test images are split into
    equal, disjoint parts. The server's proxy images are the run's.
    """
    train, test = subset(dataset, config.train_images, config.test_images)
    index = images_for_clients(config, len(train))
    images = settings.images or int(mean_client_images(config.partition, len(index)))
    pixels, numbers = dataset.train_x[0, 0].numel(), range(settings.clients)

    def draw(purpose: str, client: int = 0) -> np.random.Generator:
        return rng.numpy_generator(config.seed, f"newcomers-{purpose}", client=client)

    parts = [
        np.sort(index[draw("train", client).permutation(len(index))[:images]]) for client in numbers
    ]
    tests = np.array_split(draw("test").permutation(len(test)), settings.clients)
    orders = np.stack([draw("permutation", client).permutation(pixels) for client in numbers])
    return Partition(
        parts,
        [np.sort(part) for part in tests],
        settings.clients,
        orders,
        proxy=proxy_images(config, len(train)),
    )


class Adaptation:
    """The local trainings of a run's new clients, which start from its final weights and server
    state."""

    def __init__(
        self,
        settings: Newcomers.Params,
        config: RunConfig,
        dataset: Dataset,
        final: tuple[Weights, Weights],
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.config = config.model_copy(
            update={"clients_per_round": 1, "local_epochs": settings.epochs}
        )
        self.federation = Federation(
            self.config, dataset, draw_new_clients(settings, config, dataset), device, "sequential"
        )
        state = self.federation.state_to_device(State(config.rounds, *final))
        algorithm, server = self.federation.algorithm, self.federation.server_view(state)
        server = replace(server, state=algorithm.server_prepare(state.weights, server))
        self.received = algorithm.broadcast(state.weights, server)
        self.round = RoundExecution(self.federation, state, {})

    def train_client(self, client: int) -> Iterator[tuple[int, float]]:
        """Yield the accuracy on the client's own test part, 0..1, with the epoch; 0 is before its
        training. Stops when the target is reached, after the last epoch, or with NaN after an epoch
        with a loss that is not finite."""
        algorithm, data, step = (
            self.federation.algorithm,
            self.federation.data,
            self.federation.executor.step,
        )
        batches = self.round.client_batches(
            self.round.client(client), self.round.create_task(self.received)
        )
        weights, received = (
            {name: batches.start[name].clone() for name in algorithm.names},
            batches.received,
        )
        velocity, part = step.velocity(weights, algorithm.trained), data.test_part(client, 0)
        per_epoch = len(batches.sizes) // self.settings.epochs
        for epoch in range(self.settings.epochs + 1):
            steps = range((epoch - 1) * per_epoch, epoch * per_epoch) if epoch else ()
            losses = [
                step(weights, velocity, received, batches.batch(number), self.config.lr)
                for number in steps
            ]
            if losses and not torch.stack(losses).isfinite().all():
                yield epoch, float("nan")
                return
            personal = algorithm.personalised_weights(weights, received)
            measured = evaluate(
                algorithm, ADAPTATION_MEASURES, personal, *part, self.federation.chunk
            )
            accuracy = measured["personal_accuracy"]
            yield epoch, accuracy
            if accuracy >= self.settings.target:
                return
