"""VGG9 of FedMA's code (Wang et al. 2020; also Psi-Net's): six 3x3 convolutions, two hidden layers,
no normalisation.

3,491,530 weights for 32x32 colour images and 10 classes. Dropout is of whole maps after the fourth
convolution, of single units before the first and after the last hidden layer.
"""

from torch import nn

from fedrepro.config.types import Rate
from fedrepro.models.base import Block, Head, Network


class VGG9(Network):
    dropout: Rate = 0.1
    map_dropout: Rate = 0.05

    def blocks(self, outputs: int) -> list[Block | Head]:
        pool = nn.MaxPool2d(2)
        return [
            self.conv("conv1", 32, 3),
            self.conv("conv2", 64, 3, pool),
            self.conv("conv3", 128, 3),
            self.conv("conv4", 128, 3, pool, dropout=self.map_dropout, channelwise=True),
            self.conv("conv5", 256, 3),
            self.conv("conv6", 256, 3, pool, dropout=self.dropout),
            self.dense("fc1", 512, dropout=0.0),
            self.dense("fc2", 512),
            Head(outputs),
        ]
