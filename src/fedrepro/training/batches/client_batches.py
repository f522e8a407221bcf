"""What a client trains on in a round: its mini-batches, in an order that no executor can change."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import rng
from fedrepro.models import dropout_masks
from fedrepro.training.batches.augmentation import RandomDraws
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.batches.prefetch import prefetch

REFERENCE_CHUNK = 100  # images per pass of the frozen network


class ClientBatches:
    """The batches of one local training. They are asked for in order: augmentation and dropout draw as they come. `own`: what
    the method's `prepare` found. `phase` names another training of the same client in the same round, with draws of its own.
    `start`: the weights that it starts from (None: those received). `velocity`: the momentum, by weight, that it starts with
    (what is not named starts without)."""

    def __init__(
        self,
        algorithm: FedAvg,
        config: RunConfig,
        data: FederatedData,
        received: Weights,
        client: int,
        round: int,
        constants: Weights | None = None,
        phase: str = "",
        start: Weights | None = None,
        velocity: Weights | None = None,
    ) -> None:
        self.algorithm, self.config, self.data, self.received, self.client = algorithm, config, data, received, client
        self.start = received if start is None else start
        self.constants, self.velocity = constants or {}, velocity or {}
        held = data.train_index(client, round)

        def draw(purpose: str) -> torch.Generator:
            return rng.generator(config.seed, purpose + phase, round, client)

        order = shuffled(len(held), config.local_epochs, draw("batches"))
        self.sizes = batch_sizes(config, len(held))
        self.index = held.index_select(0, order.to(held.device, non_blocking=True)).split_with_sizes(self.sizes)
        self.changes = self._draw_changes(draw("augment")) if config.augment else None
        self.dropout_generator = draw("dropout") if algorithm.net.dropout else None
        self.reference_rows: tuple[Tensor, ...] = ()
        if algorithm.needs_reference and not config.augment:  # then an image looks the same in every epoch
            self.order = order.split_with_sizes(self.sizes)
            self.reference_rows = self._reference_outputs(
                [data.images(chunk, client, None) for chunk in held.split(REFERENCE_CHUNK)]
            )

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        images = self.data.images(self.index[step], self.client, next(self.changes) if self.changes else None)
        return Batch(
            images, self.data.train_y[self.index[step]], self.reference_outputs(step, images), self.masks(step), self.constants
        )

    def reference_outputs(self, step: int, images: Tensor) -> tuple[Tensor, ...]:
        """What networks that do not change in the round say of the batch."""
        if self.algorithm.needs_reference and self.config.augment:
            return self._reference_outputs([images])
        return tuple(rows[self.order[step].to(rows.device, non_blocking=True)] for rows in self.reference_rows)

    def masks(self, step: int) -> tuple[Tensor, ...]:
        """What dropout keeps of the batch."""
        return dropout_masks(self.algorithm.net, self.sizes[step], self.dropout_generator, self.start)

    def _draw_changes(self, generator: torch.Generator) -> Iterator[RandomDraws]:
        """What changes the images of each batch; while a GPU is busy with one batch, of those that follow."""
        drawn = (self.data.draw_changes(size, generator) for size in self.sizes)
        return drawn if self.data.device.type == "cpu" else prefetch(drawn)

    @torch.no_grad()
    def _reference_outputs(self, chunks: list[Tensor]) -> tuple[Tensor, ...]:
        """What networks that do not change in the round say of each image."""
        with self.algorithm.autocast(self.config.precision == "bfloat16"):
            rows = [self.algorithm.reference_outputs(self.received, images, self.constants) for images in chunks]
        return tuple(torch.cat(parts) for parts in zip(*rows, strict=True))


def stack_batches(clients: list[ClientBatches], step: int, constants: Weights) -> Batch:
    """The batches of a step, of one size, with a leading axis of clients, which `own` has already; images that all see alike
    are fetched at once."""
    data = clients[0].data
    if not data.identical_for_all:
        *parts, _ = zip(*(feed.batch(step) for feed in clients), strict=True)
        return Batch(*map(_stack, parts), constants)
    index = torch.stack([feed.index[step] for feed in clients])
    images = data.images(index, None, None)
    rows = (
        _stack([feed.reference_outputs(step, images) for feed, images in zip(clients, images, strict=True)])
        if clients[0].reference_rows
        else ()
    )
    masks = _stack([feed.masks(step) for feed in clients]) if clients[0].dropout_generator else ()
    return Batch(images, data.train_y[index], rows, masks, constants)


def _stack(parts: Sequence[Tensor] | Sequence[tuple[Tensor, ...]]) -> Tensor | tuple[Tensor, ...]:
    """Tensors of several clients as one; tuples of tensors item by item."""
    if isinstance(parts[0], tuple):
        return tuple(torch.stack(rows) for rows in zip(*parts, strict=True))
    return torch.stack(parts)


def shuffled(images: int, epochs: int, generator: torch.Generator) -> Tensor:
    """The order in which a client sees its images: every epoch a fresh shuffle."""
    return torch.cat([torch.randperm(images, generator=generator) for _ in range(epochs)])


def batch_sizes(config: RunConfig, images: int) -> list[int]:
    """Of all mini-batches of a local training: the last of each epoch takes the rest."""
    whole, rest = divmod(images, config.batch_size)
    return ([config.batch_size] * whole + [rest] * (rest > 0)) * config.local_epochs
