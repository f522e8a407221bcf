"""MobileNetV1 for small images (Howard et al. 2017, in the usual CIFAR variant): a convolution and
thirteen separable ones.

3,217,226 weights for 32x32 colour images and 10 classes. A separable convolution is two blocks:
`conv2_depth`, a 3x3 filter for each channel, and `conv2_point`, which mixes them. No biases; batch
normalisation after every convolution.
"""

from torch import nn

from fedrepro.models.base import Block, Head, Network, Norm

SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)  # filters, stride


class MobileNet(Network):
    norm: Norm = "batch"

    def blocks(self, outputs: int) -> list[Block | Head]:
        layers: list[Block | Head] = [self.conv("conv1", 32, 3, bias=False)]
        for number, (filters, stride) in enumerate(SEPARABLE, 2):
            pool = nn.AdaptiveAvgPool2d(1) if number == len(SEPARABLE) + 1 else None
            layers += [
                self.depthwise(f"conv{number}_depth", 3, stride=stride, bias=False),
                self.conv(f"conv{number}_point", filters, 1, pool, bias=False),
            ]
        return [*layers, Head(outputs)]
