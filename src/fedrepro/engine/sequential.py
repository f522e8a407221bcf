"""The reference executor: clients are trained one after the other."""

import torch
from torch import Tensor

from fedrepro import rng
from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights
from fedrepro.config import RunConfig
from fedrepro.engine.data import FederatedData

CHUNK = 500  # images per pass of the frozen network


def train_client(
    algorithm: FedAvg, config: RunConfig, data: FederatedData, received: Weights, client: int, round: int, lr: float
) -> tuple[Weights, Tensor]:
    """Local training of one client from the weights it received: E epochs of mini-batch SGD. Returns its weights and the mean
    loss over its steps (a scalar tensor, not yet read from the device)."""
    algorithm.net.train()
    trained = {name for name, _ in algorithm.net.named_parameters()}
    weights = {name: received[name].clone().requires_grad_(name in trained) for name in algorithm.net.state_dict()}
    optimiser = torch.optim.SGD(
        [weights[name] for name in sorted(trained)],
        lr=lr,
        momentum=config.momentum,
        nesterov=config.nesterov,
        weight_decay=config.weight_decay,
        fused=True,
    )
    images, labels = data.train_part(client, round)
    changes = rng.generator(config.seed, "augment", round, client) if config.augment else None
    frozen = None if config.augment else _frozen(algorithm, received, data.batch(images, client, None))
    total, steps = torch.zeros((), dtype=torch.float64, device=labels.device), 0
    for index in batches(config, len(labels), round, client):
        chosen = index.to(labels.device)
        batch = data.batch(images[chosen], client, changes)
        rows = _frozen(algorithm, received, batch) if frozen is None else tuple(tensor[chosen] for tensor in frozen)
        loss = algorithm.loss(weights, received, rows, batch, labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.detach()
        steps += 1
    return {name: tensor.detach() for name, tensor in weights.items()}, total / steps


def batches(config: RunConfig, images: int, round: int, client: int) -> list[Tensor]:
    """The mini-batches of one local training, as index tensors: every epoch a fresh shuffle, the last takes the rest."""
    generator = rng.generator(config.seed, "batches", round, client)
    epochs = (torch.randperm(images, generator=generator) for _ in range(config.local_epochs))
    return [batch for epoch in epochs for batch in epoch.split(config.batch_size)]


@torch.no_grad()
def _frozen(algorithm: FedAvg, received: Weights, images: Tensor) -> tuple[Tensor, ...]:
    """What the unchanging received network says of each image, in large batches; its buffers stay as they are."""
    algorithm.net.eval()
    rows = [algorithm.frozen(received, chunk) for chunk in images.split(CHUNK)]
    algorithm.net.train()
    return tuple(torch.cat(parts) for parts in zip(*rows, strict=True))
