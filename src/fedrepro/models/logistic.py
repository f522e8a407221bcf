"""Logistic regression on the pixels (7,850 weights for MNIST): the smallest task of federated benchmarks."""

from fedrepro.models.base import BaseParams as Params
from fedrepro.models.base import Block, Head

__all__ = ["Params", "blocks"]


def blocks(params: Params, outputs: int) -> list[Block | Head]:
    return [Head(outputs)]
