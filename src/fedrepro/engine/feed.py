"""What a client trains on in a round: its mini-batches, in an order that no executor can change."""

import torch
from torch import Tensor

from fedrepro import rng
from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights
from fedrepro.config import RunConfig
from fedrepro.engine.data import FederatedData
from fedrepro.models import dropout_masks

CHUNK = 100  # images per pass of the frozen network


class Feed:
    """The batches of one local training. They are asked for in order: augmentation and dropout draw as they come."""

    def __init__(
        self, algorithm: FedAvg, config: RunConfig, data: FederatedData, received: Weights, client: int, round: int
    ) -> None:
        self.algorithm, self.config, self.data, self.received, self.client = algorithm, config, data, received, client
        own = data.train_index(client, round)
        self.order = batches(config, len(own), round, client)
        self.index = own[torch.cat(self.order).to(own.device)].split([len(batch) for batch in self.order])
        self.changes = rng.generator(config.seed, "augment", round, client) if config.augment else None
        self.dropped = rng.generator(config.seed, "dropout", round, client) if algorithm.net.dropout else None
        self.frozen: tuple[Tensor, ...] = ()
        if algorithm.looks_back and not config.augment:  # then an image looks the same in every epoch
            self.frozen = self._frozen([data.images(chunk, client, None) for chunk in own.split(CHUNK)])

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        images = self.data.images(self.index[step], self.client, self.changes)
        return Batch(images, self.data.train_y[self.index[step]], self._rows(step, images), self._masks(step))

    def _rows(self, step: int, images: Tensor) -> tuple[Tensor, ...]:
        if self.algorithm.looks_back and self.config.augment:
            return self._frozen([images])
        return tuple(rows[self.order[step].to(rows.device)] for rows in self.frozen)

    def _masks(self, step: int) -> tuple[Tensor, ...]:
        return dropout_masks(self.algorithm.net, len(self.order[step]), self.dropped)

    @torch.no_grad()
    def _frozen(self, chunks: list[Tensor]) -> tuple[Tensor, ...]:
        """What the unchanging received network says of each image."""
        rows = [self.algorithm.frozen(self.received, images) for images in chunks]
        return tuple(torch.cat(parts) for parts in zip(*rows, strict=True))


def together(feeds: list[Feed], step: int) -> Batch:
    """The batches of a step, of one size, with a leading axis of clients; images that all see alike are fetched at once."""
    data = feeds[0].data
    if not data.plain:
        return Batch(*(_stack(parts) for parts in zip(*(feed.batch(step) for feed in feeds), strict=True)))
    index = torch.stack([feed.index[step] for feed in feeds])
    images = data.images(index, None, None)
    rows = _stack([feed._rows(step, own) for feed, own in zip(feeds, images, strict=True)])
    return Batch(images, data.train_y[index], rows, _stack([feed._masks(step) for feed in feeds]))


def _stack(parts: list[Tensor] | list[tuple[Tensor, ...]]) -> Tensor | tuple[Tensor, ...]:
    """Tensors of several clients as one; tuples of tensors item by item."""
    if isinstance(parts[0], tuple):
        return tuple(torch.stack(rows) for rows in zip(*parts, strict=True))
    return torch.stack(parts)


def batches(config: RunConfig, images: int, round: int, client: int) -> list[Tensor]:
    """The mini-batches of one local training, as index tensors: every epoch a fresh shuffle, the last takes the rest."""
    generator = rng.generator(config.seed, "batches", round, client)
    epochs = (torch.randperm(images, generator=generator) for _ in range(config.local_epochs))
    return [batch for epoch in epochs for batch in epoch.split(config.batch_size)]
