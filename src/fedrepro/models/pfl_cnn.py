"""The two-layer CNN of pfl-research's CIFAR10 benchmark (Granqvist et al. 2024): two unpadded 3x3 convolutions, one pooling,
128 dense units; 1,626,442 weights for 32x32 colour images and 10 classes."""

from torch import nn

from fedrepro.models.base import BaseParams as Params

__all__ = ["Params", "layers"]


def layers(params: Params, shape: tuple[int, int, int]) -> tuple[nn.Module, list[int]]:
    first, second = params.scaled(32), params.scaled(64)
    extractor = nn.Sequential(
        nn.Conv2d(shape[0], first, 3), nn.ReLU(), nn.Conv2d(first, second, 3), nn.MaxPool2d(2), nn.ReLU()
    )  # pooling commutes with ReLU and leaves it a quarter of the work
    return extractor, [params.scaled(128)]
