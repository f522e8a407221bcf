"""A data set on the device, and each client's part of it."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedrepro.config.params import RunConfig
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition, subset
from fedrepro.training.batches import augmentation

CHUNK = 1000  # images scaled at a time


class FederatedData:
    """The images and labels of a federation on `device`. Without augmentation, images are scaled
    once at the start."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, partition: Partition, device: torch.device
    ) -> None:
        augmentation.check(config, dataset.train_x.shape[1], dataset.train_x.is_floating_point())
        train, test = subset(dataset, config.train_images, config.test_images)
        self.config, self.dataset, self.partition, self.device = config, dataset, partition, device
        self.dtype = number_type(config.precision)
        self.train_x = dataset.train_x[train].to(device)
        self.train_y = dataset.train_y[train].to(device)
        self.test_y = dataset.test_y[test].to(device)
        self.test_x = self._scale(dataset.test_x[test].to(device))
        if partition.permutations is not None:
            self._permute_test()
        if not config.augment:
            self.train_x = self._scale(self.train_x)
        self._train_indices: dict[int, Tensor] = {}  # cache of `train_index`
        # whether an image looks the same to every client in every round
        self.identical_for_all = not config.augment and partition.permutations is None

    def train_index(self, client: int, round: int) -> Tensor:
        """Return the indices of a client's training images in a round."""
        if self.partition.redraw_seed is None and client in self._train_indices:
            return self._train_indices[client]
        index = torch.from_numpy(self.partition.train_indices(client, round))
        self._train_indices[client] = index.to(self.device, non_blocking=True)
        return self._train_indices[client]

    def counts(self, index: Tensor) -> Tensor:
        """Count the images of each class, (classes,), among these training images. (`bincount`
        would wait for the device.)"""
        classes = torch.arange(self.dataset.classes, device=self.device)
        return (self.train_y[index][:, None] == classes).sum(0)

    def test_part(self, client: int, round: int) -> tuple[Tensor, Tensor]:
        """Return a client's test images, in its pixel order, and labels."""
        index = torch.from_numpy(self.partition.test_indices(client, round)).to(self.device)
        return self.test_x[index], self.test_y[index]

    def validation_part(self, client: int, round: int) -> tuple[Tensor, Tensor]:
        """Return a client's own validation images, in its pixel order, and labels."""
        index = torch.from_numpy(self.partition.validation_indices(client, round)).to(self.device)
        return self.images(index, client, None), self.train_y[index]

    def validation_set(self) -> tuple[Tensor, Tensor]:
        """Return the images that are held out, in the original pixel order, and their labels; none
        without validation."""
        held_out = self.partition.validation
        index = torch.from_numpy(np.empty(0, np.int64) if held_out is None else held_out).to(
            self.device
        )
        return self.images(index, None, None), self.train_y[index]

    def images(
        self,
        index: Tensor,
        client: int | None,
        random: torch.Generator | augmentation.RandomDraws | None,
    ) -> Tensor:
        """Return the network's inputs for the training images at `index`: augmented, scaled, in the
        client's pixel order.

        Args:
            index: (B,), or any shape if the data are `identical_for_all`.
            client: None keeps the original pixel order.
            random: a generator or drawn numbers for the augmentation; None does not augment.
        """
        # twice as fast as train_x[index] on a processor
        images = self.train_x.index_select(0, index.flatten())
        images = images.view(*index.shape, *images.shape[1:])
        if self.config.augment:
            images = images.to(self.dtype)
            changed = (
                images
                if random is None
                else augmentation.apply(images, self.config.augment, random)
            )
            images = augmentation.scale(changed, self.config.pixel_scaling, self.dataset)
        return self._permute(images, client)

    def draw_changes(self, count: int, generator: torch.Generator) -> augmentation.RandomDraws:
        """Draw the random numbers for the augmentation of `count` images."""
        return augmentation.draw(count, self.train_x.shape, self.config.augment, generator)

    def _scale(self, images: Tensor) -> Tensor:
        chunks = (
            augmentation.scale(chunk.to(self.dtype), self.config.pixel_scaling, self.dataset)
            for chunk in images.split(CHUNK)
        )
        return torch.cat(list(chunks))

    def _permute(self, images: Tensor, client: int | None) -> Tensor:
        if self.partition.permutations is None or client is None:
            return images
        order = torch.from_numpy(self.partition.permutations[client]).to(
            self.device, non_blocking=True
        )
        return images.flatten(2)[:, :, order].view(images.shape)

    def _permute_test(self) -> None:
        """Put each test image into the pixel order of its client, in the global test set too; every
        client gets its own copy of an image that several have."""
        owned = np.concatenate(self.partition.test)
        if len(np.unique(owned)) < len(owned):
            copied, ends = (
                torch.from_numpy(owned).to(self.device),
                np.cumsum([len(part) for part in self.partition.test]),
            )
            self.test_x, self.test_y = self.test_x[copied], self.test_y[copied]
            self.partition = replace(
                self.partition, test=np.split(np.arange(len(owned)), ends[:-1])
            )
        for client in range(self.partition.clients):
            index = torch.from_numpy(self.partition.test_indices(client, 0)).to(self.device)
            self.test_x[index] = self._permute(self.test_x[index], client)


def number_type(precision: str) -> torch.dtype:
    """Return the type of images and weights in a run of this `precision`.

    float32   every number and every product in single precision (the default) float64   every
    number and every product in double precision bfloat16  local training in automatic mixed
    precision: all networks in an objective, the trained and the received one,
              compute in bfloat16; weights, the objective itself, estimates and tests are in float32
    """
    return torch.float64 if precision == "float64" else torch.float32


def forbid_rounded_factors() -> None:
    """Forbid that products round their factors (TF32), which torch by default allows in CUDA's
    convolutions.

    Applies to the process until another call of torch allows it."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
