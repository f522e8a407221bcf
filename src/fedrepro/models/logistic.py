"""Logistic regression on the pixels (7,850 weights for MNIST): the smallest task of federated benchmarks."""

from torch import nn

from fedrepro.models.base import BaseParams as Params

__all__ = ["Params", "layers"]


def layers(params: Params, shape: tuple[int, int, int]) -> tuple[nn.Module, list[int]]:
    return nn.Identity(), []
