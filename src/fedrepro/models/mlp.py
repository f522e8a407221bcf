"""One hidden layer of 512 units with ReLU, on the pixels: FedMAX's network for the synthetic
devices (Chen et al. 2020, code); 529,930 weights for 1024 inputs and 10 classes."""

from fedrepro.config.types import Count
from fedrepro.models.base import Block, Head, Network


class MLP(Network):
    units: Count = 512

    def blocks(self, outputs: int) -> list[Block | Head]:
        return [self.dense("fc1", self.units), Head(outputs)]
