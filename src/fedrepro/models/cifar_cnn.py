"""The two CIFAR networks of the FedMMD paper: as its text says (two convolutions; 1,756,426 weights; also FedFusion's), and as
FedMMD's code has it (AlexNet-like, Glorot-uniform; 3,630,602). Counts hold for 32x32 colour images and 10 classes."""

from typing import ClassVar

from torch import nn

from fedrepro.models.base import PaperOrCode, conv_pool


class Params(PaperOrCode):
    inits: ClassVar = {"paper": "pytorch", "code": "glorot"}


def layers(params: Params, shape: tuple[int, int, int]) -> tuple[nn.Module, list[int]]:
    return (_paper if params.arch == "paper" else _code)(params, shape[0])


def _paper(params: Params, channels: int) -> tuple[nn.Module, list[int]]:
    filters = params.scaled(64)
    extractor = nn.Sequential(
        *conv_pool(channels, filters, 5, nn.MaxPool2d(3, 2, padding=1)),
        *conv_pool(filters, filters, 5, nn.MaxPool2d(3, 2, padding=1)),
    )
    return extractor, [params.scaled(384), params.scaled(192)]


def _code(params: Params, channels: int) -> tuple[nn.Module, list[int]]:
    narrow, middle, wide = params.scaled(64), params.scaled(128), params.scaled(256)
    extractor = nn.Sequential(
        *conv_pool(channels, narrow, 5, nn.MaxPool2d(3, 2)),
        *conv_pool(narrow, middle, 5, nn.MaxPool2d(3, 2)),
        *conv_pool(middle, wide, 3, None),
        *conv_pool(wide, wide, 3, None),
        *conv_pool(wide, middle, 3, nn.MaxPool2d(3, 2)),
    )
    return extractor, [params.scaled(1024), params.scaled(1024)]
