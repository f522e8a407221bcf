"""FedMAX's network for CIFAR and EMNIST letters (Chen et al. 2020, code): five 3x3 convolutions, no
biases, 512 dense units.

659,818 weights for 32x32 colour images and 10 classes, 705,988 for 100; 438,074 for grey images, 26
classes, `last_padding: 0`.
"""

from typing import Literal

from torch import nn

from fedrepro.config.types import Count
from fedrepro.models.base import Block, Head, Network


class FedMAXCNN(Network):
    last_padding: Literal[0, 1] = 1  # of the fifth convolution; 0 in the authors' code for EMNIST
    hidden: Count = 512  # dense units at width 1; FedMAX's beta is divided by them

    def blocks(self, outputs: int) -> list[Block | Head]:
        pool = nn.MaxPool2d(2)
        return [
            self.conv("conv1", 32, 3, pool, bias=False),
            self.conv("conv2", 64, 3, bias=False),
            self.conv("conv3", 64, 3, pool, bias=False),
            self.conv("conv4", 64, 3, bias=False),
            self.conv("conv5", 64, 3, pool, bias=False, padding=self.last_padding),
            self.dense("fc1", self.hidden),
            Head(outputs),
        ]
