"""Accuracy and loss of weights on labelled images."""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights

WORK = {"cpu": 1e9, "cuda": 1e12}  # operations of a forward pass: enough to keep the device busy, little enough for its cache


@torch.no_grad()
def flops(algorithm: FedAvg, shape: tuple[int, int, int]) -> int:
    """Floating-point operations of one image of `shape` (C, H, W) on its way through products and convolutions."""
    with FlopCounterMode(display=False) as counter:
        algorithm.forward(algorithm.net.state_dict(), algorithm.net.head.weight.new_zeros(1, *shape))
    return counter.get_total_flops()


def chunk(flops: int, device: torch.device) -> int:
    """How many images of so many operations to show a network at a time."""
    return max(1, round(WORK[device.type] / flops))


@torch.no_grad()
def evaluate(algorithm: FedAvg, weights: Weights, images: Tensor, labels: Tensor, chunk: int = 100) -> tuple[float, float]:
    """Share of images classified correctly, in 0..1, and mean cross entropy in nats, `chunk` images at a time. NaN where there
    are no images."""
    if len(labels) == 0:
        return float("nan"), float("nan")
    correct = torch.zeros((), dtype=torch.int64, device=labels.device)
    loss = torch.zeros((), dtype=torch.float64, device=labels.device)
    for batch, truth in zip(images.split(chunk), labels.split(chunk), strict=True):
        logits = algorithm.forward(weights, batch).logits
        correct += (logits.argmax(1) == truth).sum()
        loss += F.cross_entropy(logits, truth, reduction="sum").double()
    return correct.item() / len(labels), loss.item() / len(labels)
