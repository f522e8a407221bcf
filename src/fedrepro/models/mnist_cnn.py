"""The two MNIST networks of the FedMMD paper: as its text says (McMahan et al. 2017; 1,663,370 weights), and as its code has it
(1024 dense units, truncated-normal weights; 3,274,634). Counts hold for 28x28 grey images and 10 classes."""

from typing import ClassVar

from torch import nn

from fedrepro.models.base import PaperOrCode, conv_pool


class Params(PaperOrCode):
    inits: ClassVar = {"paper": "pytorch", "code": "truncated_normal"}


def layers(params: Params, shape: tuple[int, int, int]) -> tuple[nn.Module, list[int]]:
    first, second = params.scaled(32), params.scaled(64)
    extractor = nn.Sequential(
        *conv_pool(shape[0], first, 5, nn.MaxPool2d(2)),
        *conv_pool(first, second, 5, nn.MaxPool2d(2)),
    )
    return extractor, [params.scaled(512 if params.arch == "paper" else 1024)]
