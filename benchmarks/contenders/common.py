"""Data, network, objective and evaluation that all contenders share."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.clock import Clock
from benchmarks.workloads import Task, network
from fedrepro.config.params import RunConfig
from fedrepro.core import rng
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition
from fedrepro.runs.paths import Paths
from fedrepro.training.batches import augmentation
from fedrepro.training.batches.client_data import forbid_rounded_factors

CHUNK = 500  # images per forward pass of an evaluation


@dataclass(frozen=True)
class Material:
    """Data on the device and their partition; images are floats, scaled unless they are
    augmented."""

    dataset: Dataset
    partition: Partition
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor

    def of(self, client: int) -> tuple[Tensor, Tensor]:
        """Return copies of a client's training images and labels."""
        index = torch.from_numpy(self.partition.train_indices(client, 1))
        return self.train_x[index], self.train_y[index]


def load_partitioned(config: RunConfig, folder: str) -> tuple[Dataset, Partition]:
    """Return the prepared data set and the run's partition."""
    dataset = datasets.load(Paths(Path(folder)).prepared(config.dataset))
    return dataset, partitions.for_run(config, dataset)


@functools.lru_cache(maxsize=1)
def _material(text: str) -> Material:
    task = Task.from_json(text)
    config, device = task.config, task.device
    dataset, partition = load_partitioned(config, task.data)
    train, test = partitions.subset(dataset, config.train_images, config.test_images)

    def scaled(images: Tensor) -> Tensor:
        chunks = images.split(1000)
        return torch.cat(
            [augmentation.scale(chunk.float(), config.pixel_scaling, dataset) for chunk in chunks]
        ).to(device)

    train_x = dataset.train_x[train]
    train_x = train_x.to(device) if config.augment else scaled(train_x)
    labels = dataset.train_y[train].to(device), dataset.test_y[test].to(device)
    return Material(dataset, partition, train_x, labels[0], scaled(dataset.test_x[test]), labels[1])


def material(task: Task) -> Material:
    """Return the data of a task, loaded once per process."""
    return _material(task.to_json())


def preparation(task: Task, data: Material) -> Callable[[Tensor], Tensor]:
    """Return the function that prepares a batch for the network: the workload's augmentation, if
    any."""
    config = task.config
    if not config.augment:
        return lambda images: images
    draws = torch.Generator().manual_seed(task.rank)
    return lambda images: augmentation.scale(
        augmentation.apply(images.float(), config.augment, draws),
        config.pixel_scaling,
        data.dataset,
    )


def objective(config: RunConfig) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """Return the local loss of a batch as a function of network, images and labels."""
    if config.algorithm.name == "fedavg":
        return lambda net, images, labels: F.cross_entropy(net(images).logits, labels)
    if config.algorithm.name == "fedmax":
        beta = config.algorithm.options.get("beta", 1500)
        return lambda net, images, labels: _fedmax(net, images, labels, beta)
    raise ValueError(f"no plain loop for algorithm {config.algorithm.name}")


def _fedmax(net: nn.Module, images: Tensor, labels: Tensor, beta: float) -> Tensor:
    """Cross entropy plus beta times the mean over batch and features of u (log u - log p), u
    uniform, p the softmax of the penultimate layer."""
    out = net(images)
    logs = F.log_softmax(out.penultimate, 1)
    return F.cross_entropy(out.logits, labels) + beta * F.kl_div(
        logs, torch.full_like(logs, 1 / logs.shape[1]), reduction="mean"
    )


def optimiser(
    config: RunConfig, parameters: Iterable[Tensor], lr: float | None = None
) -> torch.optim.SGD:
    """Plain SGD as the settings say, at rate `lr` where given."""
    rate = config.lr if lr is None else lr
    options = {
        "momentum": config.momentum,
        "nesterov": config.nesterov,
        "weight_decay": config.weight_decay,
    }
    return torch.optim.SGD(parameters, lr=rate, **options)


@torch.no_grad()
def accuracy(net: nn.Module, data: Material) -> float:
    """Share of the test images classified correctly, 0..1."""
    net.eval()
    pairs = zip(data.test_x.split(CHUNK), data.test_y.split(CHUNK), strict=True)
    return sum(
        (net(images).logits.argmax(1) == labels).sum().item() for images, labels in pairs
    ) / len(data.test_y)


def cohort(task: Task, round: int) -> list[int]:
    """The clients of a round, drawn as this program draws them."""
    order = torch.randperm(
        task.config.partition.options["clients"],
        generator=rng.generator(task.config.seed, "cohort", round),
    )
    return sorted(order[: task.config.clients_per_round].tolist())


def fresh(task: Task) -> nn.Module:
    """The network with its initial weights, on the device, where products are rounded as the task
    says: as with us."""
    forbid_rounded_factors()
    return network(task.config).to(task.device)


def tested(clock: Clock, net: nn.Module, data: Material) -> float | None:
    """The accuracy where this round is to be evaluated."""
    return accuracy(net, data) if clock.due(clock.round) else None
