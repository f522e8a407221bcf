"""Three MNIST networks, with their numbers of weights for 28x28 grey images and 10 classes: that of
the FedMMD and FedFusion papers' text (McMahan et al. 2017; 1,663,370), that of FedMMD's code (1024
dense units, truncated-normal weights; 3,274,634), and that of FedFusion's and FedCL's code (second
kernel 3x3, overlapping pools, Glorot-uniform weights; 1,630,602)."""

from typing import ClassVar, Literal

from torch import nn

from fedrepro.models.base import Block, Head, PaperOrCode


class MnistCNN(PaperOrCode):
    arch: Literal["paper", "code", "fusion_code"] = "paper"
    inits: ClassVar = {"paper": "pytorch", "code": "truncated_normal", "fusion_code": "glorot"}

    def blocks(self, outputs: int) -> list[Block | Head]:
        fusion = self.arch == "fusion_code"
        pool = nn.MaxPool2d(3, 2, padding=1) if fusion else nn.MaxPool2d(2)
        return [
            self.conv("conv1", 32, 5, pool),
            self.conv("conv2", 64, 3 if fusion else 5, pool),
            self.dense("fc1", 1024 if self.arch == "code" else 512),
            Head(outputs),
        ]
