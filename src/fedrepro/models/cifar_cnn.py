"""The two CIFAR networks of the FedMMD paper: that of its text (two convolutions; 1,756,426 weights; also FedFusion's) and that
of its code (AlexNet-like, Glorot-uniform; 3,630,602 weights), counted for 32x32 colour images and 10 classes."""

from typing import ClassVar

from torch import nn

from fedrepro.models.base import Block, Head, PaperOrCode


class Params(PaperOrCode):
    inits: ClassVar = {"paper": "pytorch", "code": "glorot"}


def blocks(params: Params, outputs: int) -> list[Block | Head]:
    return [*(_paper if params.arch == "paper" else _code)(params), Head(outputs)]


def _paper(params: Params) -> list[Block]:
    pool = nn.MaxPool2d(3, 2, padding=1)
    return [
        params.conv("conv1", 64, 5, pool),
        params.conv("conv2", 64, 5, pool),
        params.dense("fc1", 384),
        params.dense("fc2", 192),
    ]


def _code(params: Params) -> list[Block]:
    pool = nn.MaxPool2d(3, 2)
    return [
        params.conv("conv1", 64, 5, pool),
        params.conv("conv2", 128, 5, pool),
        params.conv("conv3", 256, 3),
        params.conv("conv4", 256, 3),
        params.conv("conv5", 128, 3, pool),
        params.dense("fc1", 1024),
        params.dense("fc2", 1024),
    ]
