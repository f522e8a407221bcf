"""One hidden layer of 512 units with ReLU, on the pixels: FedMAX's network for the synthetic devices (Chen et al. 2020, code);
529,930 weights for 1024 inputs and 10 classes."""

from fedrepro.config.types import Count
from fedrepro.models.base import BaseParams, Block, Head


class Params(BaseParams):
    units: Count = 512


def blocks(params: Params, outputs: int) -> list[Block | Head]:
    return [params.dense("fc1", params.units), Head(outputs)]
