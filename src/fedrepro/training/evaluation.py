"""Evaluation of weights on labelled images by the measures of `core.metrics.MEASURES`, and the size
of a network's work."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights
from fedrepro.core.metrics import Measure
from fedrepro.models import Weighted

OPERATIONS_PER_PASS = {
    "cpu": 1e9,
    "cuda": 1e12,
}  # operations of a forward pass: enough to keep the device busy, little enough for its cache


def flops(algorithm: FedAvg, shape: tuple[int, ...]) -> int:
    """Count the floating-point operations of dense and convolution layers for one image of `shape`
    (C, H, W): two for each weight at each place of a layer's outputs. (torch's own counter imports
    its compiler, which takes seconds.)"""
    layers = [layer for layer in algorithm.net.modules() if isinstance(layer, Weighted)]
    return _sum_over_calls(
        algorithm,
        shape,
        layers,
        lambda layer, outputs: 2 * layer.weight.numel() * outputs[0].numel() // len(layer.weight),
    )


def activations(algorithm: FedAvg, shape: tuple[int, ...]) -> int:
    """Count the numbers in the outputs of all layers for one image of `shape` (C, H, W)."""
    layers = [layer for layer in algorithm.net.modules() if not list(layer.children())]
    return _sum_over_calls(
        algorithm,
        shape,
        layers,
        lambda layer, outputs: sum(tensor.numel() for tensor in tree_leaves(outputs)),
    )


@torch.no_grad()
def _sum_over_calls(
    algorithm: FedAvg,
    shape: tuple[int, ...],
    layers: Sequence[nn.Module],
    count: Callable[[Any, Tensor], int],
) -> int:
    """Return the sum of `count(layer, outputs)` over all calls of these layers for one image."""
    counts = []
    hooks = [
        layer.register_forward_hook(lambda layer, _, outputs: counts.append(count(layer, outputs)))
        for layer in layers
    ]
    algorithm.forward(algorithm.net.tensors, algorithm.net.head.weight.new_zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return sum(counts)


def images_per_pass(flops: int, device: torch.device) -> int:
    """Return how many images, of `flops` operations each, go through a network at a time."""
    return max(1, round(OPERATIONS_PER_PASS[device.type] / flops))


def evaluate(
    algorithm: FedAvg,
    measures: Mapping[str, Measure],
    weights: Weights,
    images: Tensor,
    labels: Tensor,
    chunk: int = 100,
) -> dict[str, float]:
    """Evaluate measures of `weights` on images (N, C, H, W) with labels (N,), `chunk` images at a
    time; NaN if N is 0."""
    if not measures:
        return {}
    if len(labels) == 0:
        return dict.fromkeys(measures, math.nan)
    predicted, loss = predict(algorithm, weights, images, labels, chunk)
    return {
        name: loss if measure.score == "loss" else _score(measure, predicted, labels)
        for name, measure in measures.items()
    }


@torch.no_grad()
def predict(
    algorithm: FedAvg, weights: Weights, images: Tensor, labels: Tensor, chunk: int
) -> tuple[Tensor, float]:
    """Return the predicted class of each image, (N,), and the task's mean loss."""
    predicted, loss = [], torch.zeros((), dtype=torch.float64, device=labels.device)
    for batch, truth in zip(images.split(chunk), labels.split(chunk), strict=True):
        outputs = algorithm.forward(weights, batch).logits
        predicted.append(algorithm.task.predict(outputs))
        loss += algorithm.task.loss(outputs, truth).double() * len(truth)
    return torch.cat(predicted), loss.item() / len(labels)


def _score(measure: Measure, predicted: Tensor, labels: Tensor) -> float:
    """Score all images at once, or return the mean score over batches in the order of the test
    set."""
    size = measure.batch or len(labels)
    scores = [
        SCORES[measure.score](*pair)
        for pair in zip(predicted.split(size), labels.split(size), strict=True)
    ]
    return sum(scores) / len(scores)


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Return the share of correctly classified images, in 0..1."""
    return (predicted == labels).sum().item() / len(labels)


def macro_f1(predicted: Tensor, labels: Tensor) -> float:
    """Return the mean F1 score, 2 hits / (predicted + true), over the classes that occur or are
    predicted, in 0..1."""
    classes = int(max(predicted.max(), labels.max())) + 1
    hits = labels[predicted == labels].bincount(minlength=classes)
    both = predicted.bincount(minlength=classes) + labels.bincount(minlength=classes)
    return (2 * hits[both > 0].double() / both[both > 0]).mean().item()


SCORES = {"accuracy": accuracy, "macro_f1": macro_f1}
