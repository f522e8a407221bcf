"""The two-layer CNN of pfl-research's CIFAR10 benchmark (Granqvist et al. 2024): two unpadded 3x3
convolutions, one pooling, 128 dense units; 1,626,442 weights for 32x32 colour images and 10
classes."""

from torch import nn

from fedrepro.models.base import Block, Head, Network


class PflCNN(Network):
    def blocks(self, outputs: int) -> list[Block | Head]:
        return [
            self.conv("conv1", 32, 3, padding=0),
            self.conv("conv2", 64, 3, nn.MaxPool2d(2), padding=0),
            self.dense("fc1", 128),
            Head(outputs),
        ]
