"""Accuracy and loss of weights on labelled images."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights

CHUNK = 500  # images per forward pass: large enough to fill the device, small enough for the cache


@torch.no_grad()
def evaluate(algorithm: FedAvg, weights: Weights, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Share of images classified correctly, in 0..1, and mean cross entropy in nats. NaN where there are no images."""
    if len(labels) == 0:
        return float("nan"), float("nan")
    algorithm.net.eval()
    correct = torch.zeros((), dtype=torch.int64, device=labels.device)
    loss = torch.zeros((), dtype=torch.float64, device=labels.device)
    for batch, truth in zip(images.split(CHUNK), labels.split(CHUNK), strict=True):
        logits = algorithm.forward(weights, batch).logits
        correct += (logits.argmax(1) == truth).sum()
        loss += F.cross_entropy(logits, truth, reduction="sum").double()
    return correct.item() / len(labels), loss.item() / len(labels)
