"""The two CIFAR networks of the FedMMD paper: that of its text (two convolutions; 1,756,426
weights; also FedFusion's) and that of its code (AlexNet-like, Glorot-uniform; 3,630,602 weights),
counted for 32x32 colour images and 10 classes."""

from typing import ClassVar

from torch import nn

from fedrepro.models.base import Block, Head, PaperOrCode


class CifarCNN(PaperOrCode):
    inits: ClassVar = {"paper": "pytorch", "code": "glorot"}

    def blocks(self, outputs: int) -> list[Block | Head]:
        if self.arch == "paper":
            pool = nn.MaxPool2d(3, 2, padding=1)
            return [
                self.conv("conv1", 64, 5, pool),
                self.conv("conv2", 64, 5, pool),
                self.dense("fc1", 384),
                self.dense("fc2", 192),
                Head(outputs),
            ]
        pool = nn.MaxPool2d(3, 2)
        return [
            self.conv("conv1", 64, 5, pool),
            self.conv("conv2", 128, 5, pool),
            self.conv("conv3", 256, 3),
            self.conv("conv4", 256, 3),
            self.conv("conv5", 128, 3, pool),
            self.dense("fc1", 1024),
            self.dense("fc2", 1024),
            Head(outputs),
        ]
