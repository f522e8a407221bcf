"""The mini-batches of a client's local training, which are the same in every executor."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import rng
from fedrepro.models import dropout_masks
from fedrepro.training.batches.augmentation import RandomDraws
from fedrepro.training.batches.client_data import FederatedData

REFERENCE_CHUNK = 100  # images in a forward pass of the reference network
AHEAD = 4  # items that are computed in advance
T = TypeVar("T")


class ClientBatches:
    """The batches of one local training. Request them in order, since augmentation and dropout draw
    random numbers.

    Args:
        constants: what the method's `prepare` returned.
        phase: name of a further training of the client in the same round, which gets random draws
            of its own.
        start: initial weights; None: the received ones.
        velocity: initial momentum by weight; a missing one is 0.
    """

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
        self.algorithm, self.config, self.data, self.received, self.client = (
            algorithm,
            config,
            data,
            received,
            client,
        )
        self.start = received if start is None else start
        self.constants, self.velocity = constants or {}, velocity or {}
        images = data.train_index(client, round)

        def draw(purpose: str) -> torch.Generator:
            return rng.generator(config.seed, purpose + phase, round, client)

        order = shuffled(len(images), config.local_epochs, draw("batches"))
        self.sizes = batch_sizes(config, len(images))
        self.index = images.index_select(
            0, order.to(images.device, non_blocking=True)
        ).split_with_sizes(self.sizes)
        self.changes = self._draw_changes(draw("augment")) if config.augment else None
        self.dropout_generator = draw("dropout") if algorithm.net.dropout else None
        self.reference_rows: tuple[Tensor, ...] = ()
        # then an image looks the same in every epoch
        if algorithm.needs_reference and not config.augment:
            self.order = order.split_with_sizes(self.sizes)
            chunks = [data.images(chunk, client, None) for chunk in images.split(REFERENCE_CHUNK)]
            self.reference_rows = self._reference_outputs(chunks)

    def batch(self, step: int) -> Batch:
        """Return the batch of a step."""
        index = self.index[step]
        images = self.data.images(index, self.client, next(self.changes) if self.changes else None)
        outputs = self.reference_outputs(step, images)
        return Batch(images, self.data.train_y[index], outputs, self.masks(step), self.constants)

    def reference_outputs(self, step: int, images: Tensor) -> tuple[Tensor, ...]:
        """Return the method's reference outputs for the batch of a step."""
        if self.algorithm.needs_reference and self.config.augment:
            return self._reference_outputs([images])
        return tuple(
            rows[self.order[step].to(rows.device, non_blocking=True)]
            for rows in self.reference_rows
        )

    def masks(self, step: int) -> tuple[Tensor, ...]:
        """Return the dropout masks of a step."""
        return dropout_masks(
            self.algorithm.net, self.sizes[step], self.dropout_generator, self.start
        )

    def _draw_changes(self, generator: torch.Generator) -> Iterator[RandomDraws]:
        """Draw the random numbers for each batch's augmentation, in advance while a GPU
        computes."""
        draws = (self.data.draw_changes(size, generator) for size in self.sizes)
        return draws if self.data.device.type == "cpu" else prefetch(draws)

    @torch.no_grad()
    def _reference_outputs(self, chunks: list[Tensor]) -> tuple[Tensor, ...]:
        """Return the method's reference outputs for the images of all chunks, with a row for each
        image."""
        with self.algorithm.autocast(self.config.precision == "bfloat16"):
            rows = [
                self.algorithm.reference_outputs(self.received, images, self.constants)
                for images in chunks
            ]
        return tuple(torch.cat(parts) for parts in zip(*rows, strict=True))


def stack_batches(clients: list[ClientBatches], step: int, constants: Weights) -> Batch:
    """Stack the batches of a step, all of one size, along a new first axis of clients, which
    `constants` already has.

    Images that are identical for all clients are fetched at once."""
    data = clients[0].data
    if not data.identical_for_all:
        batches = [client.batch(step) for client in clients]
        images, labels = (
            torch.stack([batch.images for batch in batches]),
            torch.stack([batch.labels for batch in batches]),
        )
        outputs = _stack_each([batch.reference_outputs for batch in batches])
        return Batch(
            images, labels, outputs, _stack_each([batch.masks for batch in batches]), constants
        )
    index = torch.stack([client.index[step] for client in clients])
    images = data.images(index, None, None)
    outputs, masks = (), ()
    if clients[0].reference_rows:
        outputs = _stack_each(
            [
                client.reference_outputs(step, rows)
                for client, rows in zip(clients, images, strict=True)
            ]
        )
    if clients[0].dropout_generator:
        masks = _stack_each([client.masks(step) for client in clients])
    return Batch(images, data.train_y[index], outputs, masks, constants)


def _stack_each(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Stack the clients' first tensors, their second tensors, and so on."""
    return tuple(torch.stack(tensors) for tensors in zip(*parts, strict=True))


def shuffled(images: int, epochs: int, generator: torch.Generator) -> Tensor:
    """Return the order in which a client sees its images: a new shuffle in every epoch."""
    return torch.cat([torch.randperm(images, generator=generator) for _ in range(epochs)])


def batch_sizes(config: RunConfig, images: int) -> list[int]:
    """Return the sizes of all mini-batches of a local training; the last of each epoch may be
    smaller."""
    whole, rest = divmod(images, config.batch_size)
    return ([config.batch_size] * whole + [rest] * (rest > 0)) * config.local_epochs


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the items in the same order, `AHEAD` of them computed in advance; an item's error is
    raised in its place."""
    end = object()
    waiting: deque[Future] = deque(_thread().submit(next, items, end) for _ in range(AHEAD))
    while (item := waiting.popleft().result()) is not end:
        waiting.append(_thread().submit(next, items, end))
        yield item


@cache
def _thread() -> ThreadPoolExecutor:
    """Return a pool of one thread, since the items of an iterator come one after the other."""
    return ThreadPoolExecutor(1, "prefetch")
