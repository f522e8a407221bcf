"""A network of named blocks in three stages: extractor (convolutions), hidden (dense layers), head (scores)."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedrepro.core.errors import UserError
from fedrepro.models._blocks import Block, Head, Shape

WEIGHTS = 10**9  # of a block: 4 GB, some ten times the largest of the papers' networks


class NetworkSpec(NamedTuple):
    """What a network was made from: its blocks, the shape of an image, and the model's name for messages."""

    blocks: Sequence[Block | Head]
    image: Shape
    model: str


@dataclass(frozen=True)
class Groups:
    """Which classes and weights are whose: `classes` of each group, and the names of the `weights` whose first axis is shared
    out among the groups in turn."""

    classes: tuple[tuple[int, ...], ...]
    weights: frozenset[str]

    def __len__(self) -> int:
        return len(self.classes)

    def split(self, tensor: Tensor) -> Tensor:
        """One of the `weights` (N, ...) as (groups, N / groups, ...): a view."""
        return tensor.unflatten(0, (len(self), -1))

    def present(self, images: Tensor) -> Tensor:
        """Which groups (groups,) have a class of which there are images; `images` counts them by class (classes,)."""
        return images[torch.tensor(self.classes).to(images.device, non_blocking=True)].sum(1) > 0

    def of_classes(self, values: Tensor) -> Tensor:
        """What is known of each group (groups, ...), for each class (classes, ...)."""
        owner = {label: group for group, labels in enumerate(self.classes) for label in labels}
        groups = torch.tensor([owner[label] for label in range(len(owner))])
        return values[groups.to(values.device, non_blocking=True)]


class Outputs(NamedTuple):
    """What a forward pass returns: scores (B, outputs), the layer before (B, D), the last maps (B, C, H, W), and what every
    block put out, after its dropout, by the block's name; `head` is the scores."""

    logits: Tensor
    penultimate: Tensor
    maps: Tensor
    blocks: dict[str, Tensor]

    def single(self) -> "Outputs":
        """The same in float32."""
        blocks = {name: tensor.float() for name, tensor in self.blocks.items()}
        return Outputs(self.logits.float(), self.penultimate.float(), self.maps.float(), blocks)


class Layers(nn.Sequential):
    """A block's layers, on the device "meta"; `shape` is that of their outputs for one image. Raises ValueError for more than
    `WEIGHTS`."""

    def __init__(self, block: Block, inputs: Shape) -> None:
        super().__init__()
        for name, layer in block.layers(inputs).items():
            self.add_module(name, layer)
        for layer in self.modules():
            if isinstance(layer, nn.GroupNorm):
                layer.register_forward_pre_hook(_contiguous)
            elif isinstance(layer, nn.BatchNorm2d):
                layer.register_forward_pre_hook(_several)
                layer.register_forward_pre_hook(_contiguous_in_a_stack)
        if (weights := sum(weight.numel() for weight in self.parameters())) > WEIGHTS:
            raise ValueError(f"{weights:,} weights, of at most {WEIGHTS:,}; set fewer units or a smaller width")
        self.dropout, self.channelwise = block.dropout, block.channelwise
        self.shape = _shape(self, inputs)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        features = super().forward(features)
        return features if mask is None else features * mask

    @property
    def mask_shape(self) -> Shape:
        return (self.shape[0], *[1] * (len(self.shape) - 1)) if self.channelwise else self.shape


@torch.no_grad()
def _shape(layers: Layers, inputs: Shape) -> Shape:
    """Of the outputs for one image, from a copy with any values on the processor: for an activation function on "meta" torch
    imports its compiler, which takes longer than many a run."""
    with torch.device("cpu"):
        return tuple(copy.deepcopy(layers).to_empty(device="cpu")(torch.zeros(2, *inputs)).shape[1:])


def _several(layer: nn.Module, inputs: tuple[Tensor]) -> None:
    """Raises UserError for a single number of each channel, which has no variance."""
    if layer.training and inputs[0][:, 0].numel() == 1:
        raise UserError(
            "batch_size: a batch of one image, whose maps are one pixel here, has no variance for batch normalisation; choose "
            "one that leaves no client a last batch of one image"
        )


def _contiguous(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """torch's group normalisation asks for a copy in the memory layout of its inputs, which `vmap` cannot make of channels that
    lie last."""
    return (inputs[0].contiguous(),)


def _contiguous_in_a_stack(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
    """On CUDA its batch normalisation does the same; on a processor it takes, under `vmap`, bfloat16 with bfloat16 alone."""
    levels = torch._C._functorch.get_interpreter_stack() or ()
    if not any(level.key() == torch._C._functorch.TransformType.Vmap for level in levels):
        return None
    return _contiguous(layer, inputs) if inputs[0].is_cuda else (inputs[0].to(layer.weight.dtype),)


class Stage(nn.Sequential):
    """Blocks in a row, by their names; `inputs` is the shape of what the first gets."""

    def __init__(self, blocks: dict[str, Layers], inputs: Shape) -> None:
        super().__init__()
        for name, layers in blocks.items():
            self.add_module(name, layers)
        self.shape = [inputs, *(layers.shape for layers in blocks.values())][-1]
        self.dropping = tuple(name for name, layers in blocks.items() if layers.dropout)

    def forward(self, features: Tensor, *masks: Tensor) -> Tensor:
        return self.follow(features, masks)[0]

    def follow(self, features: Tensor, masks: Sequence[Tensor] = ()) -> tuple[Tensor, dict[str, Tensor]]:
        """The last outputs, and all by their block's name. `masks`: one for each block with dropout, or none at all."""
        own, found = dict(zip(self.dropping, masks, strict=False)), {}
        for name, layers in self.named_children():
            found[name] = features = layers(features, own.get(name))
        return features, found


class Net(nn.Module):
    """Extractor -> hidden -> head. A weight is called `<stage>.<block>.<layer>.<weight>`, or `head.<weight>`. `init` is how it
    started: what a method adds to it, or draws anew, may start alike (`models.initialise`). `plan` is what it was made from.
    `groups` says which of its weights belong to which classes, where it was split (`models.regulated`)."""

    groups: Groups | None = None

    def __init__(self, extractor: Stage, hidden: Stage, head: nn.Module, init: str, plan: NetworkSpec | None = None) -> None:
        super().__init__()
        self.extractor, self.hidden, self.head, self.init, self.plan = extractor, hidden, head, init, plan

    def forward(self, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """`images`: (B, C, H, W); `masks`: what `dropout_masks` drew, in training only."""
        maps, blocks = self.extractor.follow(images, masks)
        return self.classify(maps, masks, blocks)

    def classify(self, maps: Tensor, masks: tuple[Tensor, ...] = (), blocks: dict[str, Tensor] | None = None) -> Outputs:
        """The part after the extractor. `masks` are those of the whole network, `blocks` what the extractor's put out."""
        penultimate, dense = self.hidden.follow(maps.flatten(1), masks[len(self.extractor.dropping) :])
        logits = self.head(penultimate)
        return Outputs(logits, penultimate, maps, {**(blocks or {}), **dense, "head": logits})

    @property
    def blocks(self) -> dict[str, nn.Module]:
        """All blocks in their order, `head` the last."""
        return {**dict(self.extractor.named_children()), **dict(self.hidden.named_children()), "head": self.head}

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the weights that training changes; a frozen one keeps its start."""
        return tuple(name for name, weight in self.named_parameters() if weight.requires_grad)

    @property
    def channels(self) -> int:
        """Of the extractor's maps."""
        return self.extractor.shape[0]

    @property
    def dropout(self) -> bool:
        """Whether any block drops something in training."""
        return bool(self.extractor.dropping or self.hidden.dropping)

    def names(self, block: str) -> tuple[str, ...]:
        """Of the weights and statistics of a block among those of the network, e.g. `extractor.conv1.layer.weight`."""
        return tuple(name for name in self.state_dict() if block in name.split(".")[:2])


def dropout_masks(
    net: Net, images: int, generator: torch.Generator | None, weights: Mapping[str, Tensor] | None = None
) -> tuple[Tensor, ...]:
    """What dropout multiplies with in one training step: for each block that has it a tensor of 0, with the block's probability
    p, or else 1 / (1 - p); (images, units), (images, C, H, W), or (images, C, 1, 1) where whole maps are dropped. () without
    dropout, and nothing is drawn. On the network's device. A block is as wide as its layer among `weights`, where that is."""
    kept, known, like = [], weights or {}, net.head.weight
    for stage, blocks in (("extractor", net.extractor), ("hidden", net.hidden)):
        for name, layers in blocks.named_children():
            if layers.dropout:
                width, *places = layers.mask_shape
                width = len(known.get(f"{stage}.{name}.layer.weight", range(width)))
                kept.append((torch.rand(images, width, *places, generator=generator) >= layers.dropout, layers.dropout))
    return tuple(mask.to(like, non_blocking=True) / (1 - rate) for mask, rate in kept)
