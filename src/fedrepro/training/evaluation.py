"""What weights are worth on labelled images: the scores that `measures.MEASURES` names."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights
from fedrepro.core.metrics import Measure
from fedrepro.models import Weighted

OPERATIONS_PER_PASS = {
    "cpu": 1e9,
    "cuda": 1e12,
}  # operations of a forward pass: enough to keep the device busy, little enough for its cache


def flops(algorithm: FedAvg, shape: tuple[int, int, int]) -> int:
    """Floating-point operations of one image of `shape` (C, H, W) on its way through dense and convolution layers: two for each
    weight, at each place of the layer's outputs. (torch's own counter imports its compiler, which takes seconds.)"""
    layers = [layer for layer in algorithm.net.modules() if isinstance(layer, Weighted)]
    return _sum_over_calls(algorithm, shape, layers, lambda layer, outputs: 2 * layer.weight.numel() * outputs[0, 0].numel())


def activations(algorithm: FedAvg, shape: tuple[int, int, int]) -> int:
    """Numbers that all layers put out for one image of `shape` (C, H, W)."""
    layers = [layer for layer in algorithm.net.modules() if not list(layer.children())]
    return _sum_over_calls(algorithm, shape, layers, lambda layer, outputs: outputs.numel())


@torch.no_grad()
def _sum_over_calls(
    algorithm: FedAvg, shape: tuple[int, int, int], layers: list[nn.Module], count: Callable[[nn.Module, Tensor], int]
) -> int:
    """The sum of what is counted at each call of these layers for one image."""
    found = []
    hooks = [layer.register_forward_hook(lambda layer, _, outputs: found.append(count(layer, outputs))) for layer in layers]
    algorithm.forward(algorithm.net.state_dict(), algorithm.net.head.weight.new_zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return sum(found)


def images_per_pass(flops: int, device: torch.device) -> int:
    """How many images of so many operations to show a network at a time."""
    return max(1, round(OPERATIONS_PER_PASS[device.type] / flops))


def evaluate(
    algorithm: FedAvg, measures: dict[str, Measure], weights: Weights, images: Tensor, labels: Tensor, chunk: int = 100
) -> dict[str, float]:
    """The named measures of `weights` on images (N, C, H, W) with labels (N,), seen once, `chunk` at a time; NaN without."""
    if not measures:
        return {}
    if len(labels) == 0:
        return dict.fromkeys(measures, math.nan)
    decided, loss = predict(algorithm, weights, images, labels, chunk)
    return {name: loss if measure.score == "loss" else _score(measure, decided, labels) for name, measure in measures.items()}


@torch.no_grad()
def predict(algorithm: FedAvg, weights: Weights, images: Tensor, labels: Tensor, chunk: int) -> tuple[Tensor, float]:
    """The class that is decided on for each image, (N,), and the task's mean loss."""
    decided, loss = [], torch.zeros((), dtype=torch.float64, device=labels.device)
    for batch, truth in zip(images.split(chunk), labels.split(chunk), strict=True):
        outputs = algorithm.forward(weights, batch).logits
        decided.append(algorithm.task.decide(outputs))
        loss += algorithm.task.loss(outputs, truth).double() * len(truth)
    return torch.cat(decided), loss.item() / len(labels)


def _score(measure: Measure, decided: Tensor, labels: Tensor) -> float:
    """Of all images at once, or the mean over batches of them in the order of the test set."""
    size = measure.batch or len(labels)
    scores = [SCORES[measure.score](*pair) for pair in zip(decided.split(size), labels.split(size), strict=True)]
    return sum(scores) / len(scores)


def accuracy(decided: Tensor, labels: Tensor) -> float:
    """Share of images classified correctly, in 0..1."""
    return (decided == labels).sum().item() / len(labels)


def macro_f1(decided: Tensor, labels: Tensor) -> float:
    """Mean over the classes that occur, in truth or in decision, of 2 hits / (decided + true), in 0..1."""
    classes = int(max(decided.max(), labels.max())) + 1
    hits = labels[decided == labels].bincount(minlength=classes)
    both = decided.bincount(minlength=classes) + labels.bincount(minlength=classes)
    return (2 * hits[both > 0].double() / both[both > 0]).mean().item()


SCORES = {"accuracy": accuracy, "macro_f1": macro_f1}
