"""Networks. Each module declares frozen `Params` and `blocks(params, outputs)`: a list of named blocks, the head last. So

    def blocks(params, outputs):
        return [params.conv("conv1", 32, 5, nn.MaxPool2d(2)), params.dense("fc1", 512), Head(outputs)]

is a whole network. A block is told only what it makes; what it gets follows from the block before. `params.conv` and
`params.dense` apply the options that all models share (width, norm, dropout); `Conv` and `Dense` take everything else: groups,
normalisation, dropout of numbers or of whole maps; `params.depthwise` is a convolution of each channel by itself. Another kind
of block is a subclass of `Block` with the layers that it consists of, and with `grouped` where it can be split into groups
(`regulated`, which makes a network in groups of any other). A model that starts from known weights loads them in
`start(net, params)`, after all were drawn. tests/models/test_models.py tries every model here in every executor.
"""

from fedrepro.models._blocks import Block, Conv, Dense, Depthwise, GroupedLinear, Head, Weighted, multiple
from fedrepro.models._groups import ClassMap, with_groups
from fedrepro.models._net import Groups, Net, Outputs, dropout_masks
from fedrepro.models.base import assemble, blocks, build, freeze, initialise

__all__ = [
    "Block",
    "ClassMap",
    "Conv",
    "Dense",
    "Depthwise",
    "GroupedLinear",
    "Groups",
    "Head",
    "Net",
    "Outputs",
    "Weighted",
    "assemble",
    "blocks",
    "build",
    "dropout_masks",
    "freeze",
    "initialise",
    "multiple",
    "with_groups",
]
