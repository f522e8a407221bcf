"""FedMAX's network for CIFAR and EMNIST letters (Chen et al. 2020, code): five 3x3 convolutions, no biases, 512 dense units.

659,818 weights for 32x32 colour images and 10 classes, 705,988 for 100; 438,074 for grey images, 26 classes, `last_padding: 0`.
"""

from typing import Literal

from torch import nn

from fedrepro.models.base import BaseParams


class Params(BaseParams):
    last_padding: Literal[0, 1] = 1  # of the fifth convolution; 0 in the code for EMNIST


def layers(params: Params, shape: tuple[int, int, int]) -> tuple[nn.Module, list[int]]:
    first, filters = params.scaled(32), params.scaled(64)
    plan = [(shape[0], first, True), (first, filters, False), (filters, filters, True), (filters, filters, False)]
    extractor = [layer for channels, width, pooled in plan for layer in _conv(channels, width, 1, pooled)]
    return nn.Sequential(*extractor, *_conv(filters, filters, params.last_padding, True)), [params.scaled(512)]


def _conv(channels: int, filters: int, padding: int, pooled: bool) -> list[nn.Module]:
    """Pooling before ReLU: the two commute."""
    convolution = nn.Conv2d(channels, filters, 3, padding=padding, bias=False)
    return [convolution, *([nn.MaxPool2d(2)] if pooled else []), nn.ReLU()]
