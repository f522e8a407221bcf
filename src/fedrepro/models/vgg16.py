"""VGG16 for small images, with batch normalisation and one dense layer (Simonyan and Zisserman
2015, as usual on CIFAR).

14,728,266 weights for 32x32 colour images and 10 classes. `conv3_2` is the second convolution of
the third of five blocks, each of which ends in a 2x2 pooling. For sizes that are no multiple of 32,
pooling includes incomplete windows at the border.
"""

from torch import nn

from fedrepro.models.base import Block, Head, Network, Norm

WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(Network):
    norm: Norm = "batch"

    def blocks(self, outputs: int) -> list[Block | Head]:
        pool = nn.MaxPool2d(2, ceil_mode=True)
        convolutions = [
            self.conv(f"conv{part}_{place}", filters, 3, pool if place == len(widths) else None)
            for part, widths in enumerate(WIDTHS, 1)
            for place, filters in enumerate(widths, 1)
        ]
        return [*convolutions, Head(outputs)]
