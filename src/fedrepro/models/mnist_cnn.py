"""Three MNIST networks, their weights counted for 28x28 grey images and 10 classes: as the text of the FedMMD and FedFusion
paper says (McMahan et al. 2017; 1,663,370), as FedMMD's code has it (1024 dense units, truncated-normal weights; 3,274,634),
and as FedFusion's and FedCL's codes have it (second kernel 3x3, overlapping pools, Glorot-uniform weights; 1,630,602)."""

from typing import ClassVar, Literal

from torch import nn

from fedrepro.models.base import PaperOrCode, conv_pool


class Params(PaperOrCode):
    arch: Literal["paper", "code", "fusion_code"] = "paper"
    inits: ClassVar = {"paper": "pytorch", "code": "truncated_normal", "fusion_code": "glorot"}


def layers(params: Params, shape: tuple[int, int, int]) -> tuple[nn.Module, list[int]]:
    first, second = params.scaled(32), params.scaled(64)
    fusion = params.arch == "fusion_code"
    pool = nn.MaxPool2d(3, 2, padding=1) if fusion else nn.MaxPool2d(2)
    extractor = nn.Sequential(
        *conv_pool(shape[0], first, 5, pool),
        *conv_pool(first, second, 3 if fusion else 5, pool),
    )
    return extractor, [params.scaled(1024 if params.arch == "code" else 512)]
