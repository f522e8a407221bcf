"""Networks, one file each: a class with the module's name, its options, and the method `blocks`. So

    class MyCNN(Network):
        def blocks(self, outputs):
            return [self.conv("conv1", 32, 5, nn.MaxPool2d(2)), self.dense("fc1", 512),
            Head(outputs)]

is a whole network (`my_cnn.py`). A block declares only the size of its outputs; that of its inputs
follows from the block before. `self.conv`, `self.dense` and `self.depthwise` (a convolution of each
channel by itself) apply the options that all networks share: width, norm, dropout. `Conv` and
`Dense` have all other options: groups, normalisation, dropout of units or whole maps. A new kind of
block is a subclass of `Block` that defines `layers`, and `grouped` if it can be split into groups
(`with_groups` splits the later blocks of any network). Layers may be any torch modules: those with
parameters of kinds that are not known here keep the values from their constructors, and dropout in
them is drawn from the run's generators (`_dropout.py`). `from_module` makes a network of a whole
module. A network with pretrained weights loads them in `start`, after initial ones were drawn.
tests/models/test_models.py tests every network here in every executor.
"""

from fedrepro.models._blocks import (
    Block,
    Conv,
    Dense,
    Depthwise,
    GroupedLinear,
    Head,
    PassOn,
    Weighted,
    multiple,
)
from fedrepro.models._groups import ClassMap, with_groups
from fedrepro.models._net import Groups, Net, Outputs, dropout_masks
from fedrepro.models._own import from_module, to_module
from fedrepro.models.base import Network, assemble, blocks, build, freeze, initialise

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
    "Network",
    "Outputs",
    "PassOn",
    "Weighted",
    "assemble",
    "blocks",
    "build",
    "dropout_masks",
    "freeze",
    "from_module",
    "initialise",
    "multiple",
    "to_module",
    "with_groups",
]
