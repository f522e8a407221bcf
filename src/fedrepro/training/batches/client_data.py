"""A data set on the device, seen through a partition: what each client trains on and is tested on."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedrepro.config.params import RunConfig
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition, subset
from fedrepro.training.batches import augmentation, precision

CHUNK = 1000  # images scaled at a time


class FederatedData:
    """Images and labels on `device`; without augmentation the images are scaled once and for all."""

    def __init__(self, config: RunConfig, dataset: Dataset, partition: Partition, device: torch.device) -> None:
        augmentation.check(config, dataset.train_x.shape[1], dataset.train_x.is_floating_point())
        train, test = subset(dataset, config.train_images, config.test_images)
        self.config, self.dataset, self.partition, self.device = config, dataset, partition, device
        self.dtype = precision.dtype(config.precision)
        self.train_x = dataset.train_x[train].to(device)
        self.train_y = dataset.train_y[train].to(device)
        self.test_y = dataset.test_y[test].to(device)
        self.test_x = self._scale(dataset.test_x[test].to(device))
        if partition.permutations is not None:
            self._permute_test()
        if not config.augment:
            self.train_x = self._scale(self.train_x)
        self._train_indices: dict[int, Tensor] = {}  # the last answers of `train_index`
        self.identical_for_all = (
            not config.augment and partition.permutations is None
        )  # an image looks the same to every client

    def train_index(self, client: int, round: int) -> Tensor:
        """Which training images the client holds in a round."""
        if self.partition.redraw_seed is None and client in self._train_indices:
            return self._train_indices[client]
        self._train_indices[client] = torch.from_numpy(self.partition.train_indices(client, round)).to(
            self.device, non_blocking=True
        )
        return self._train_indices[client]

    def counts(self, index: Tensor) -> Tensor:
        """How many of these training images each class has, (classes,). (`bincount` would wait for the device.)"""
        classes = torch.arange(self.dataset.classes, device=self.device)
        return (self.train_y[index][:, None] == classes).sum(0)

    def test_part(self, client: int, round: int) -> tuple[Tensor, Tensor]:
        """The client's own test images (under its permutation, where there is one) and labels."""
        index = torch.from_numpy(self.partition.test_indices(client, round)).to(self.device)
        return self.test_x[index], self.test_y[index]

    def images(self, index: Tensor, client: int | None, random: torch.Generator | augmentation.RandomDraws | None) -> Tensor:
        """What the network sees of the training images `index`: augmented where there is a generator, or what was drawn from
        one, scaled, in the client's pixel order (None: as they are). Where the data are `plain`, neither is needed, and `index`
        may have any shape."""
        images = self.train_x.index_select(0, index.flatten())  # twice as fast as train_x[index] on a processor
        images = images.view(*index.shape, *images.shape[1:])
        if self.config.augment:
            images = images.to(self.dtype)
            changed = images if random is None else augmentation.apply(images, self.config.augment, random)
            images = augmentation.scale(changed, self.config.pixel_scaling, self.dataset)
        return self._permute(images, client)

    def draw_changes(self, count: int, generator: torch.Generator) -> augmentation.RandomDraws:
        """What the augmentation of so many images takes."""
        return augmentation.draw(count, self.train_x.shape, self.config.augment, generator)

    def _scale(self, images: Tensor) -> Tensor:
        chunks = (
            augmentation.scale(chunk.to(self.dtype), self.config.pixel_scaling, self.dataset) for chunk in images.split(CHUNK)
        )
        return torch.cat(list(chunks))

    def _permute(self, images: Tensor, client: int | None) -> Tensor:
        if self.partition.permutations is None or client is None:
            return images
        order = torch.from_numpy(self.partition.permutations[client]).to(self.device, non_blocking=True)
        return images.flatten(2)[:, :, order].view(images.shape)

    def _permute_test(self) -> None:
        """Each test image stands in the pixel order of the client that owns it, in the global test as in the client's own;
        where several own it, each has a copy."""
        owned = np.concatenate(self.partition.test)
        if len(np.unique(owned)) < len(owned):
            copied, ends = torch.from_numpy(owned).to(self.device), np.cumsum([len(part) for part in self.partition.test])
            self.test_x, self.test_y = self.test_x[copied], self.test_y[copied]
            self.partition = replace(self.partition, test=np.split(np.arange(len(owned)), ends[:-1]))
        for client in range(self.partition.clients):
            index = torch.from_numpy(self.partition.test_indices(client, 0)).to(self.device)
            self.test_x[index] = self._permute(self.test_x[index], client)
