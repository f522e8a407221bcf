"""A network of named blocks in three stages: extractor (convolutions), hidden (dense layers), head (scores)."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fedrepro.core.errors import UserError
from fedrepro.models._blocks import Block, GroupedLinear, Head, Init, Shape

functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]  (not in the stubs)
MAX_BLOCK_WEIGHTS = 10**9  # 4 GB, some ten times the largest of the papers' networks


class NetworkSpec(NamedTuple):
    """The specification of a network: its blocks, the shape of an image, and the model's name for messages."""

    blocks: Sequence[Block | Head]
    image: Shape
    model: str


@dataclass(frozen=True)
class Groups:
    """The groups of a network: the `classes` of each, and the names of the `weights` whose first axis has one group after the
    other."""

    classes: tuple[tuple[int, ...], ...]
    weights: frozenset[str]

    def __len__(self) -> int:
        return len(self.classes)

    def split(self, tensor: Tensor) -> Tensor:
        """View one of the `weights` (N, ...) as (groups, N / groups, ...)."""
        return tensor.unflatten(0, (len(self), -1))

    def present(self, images: Tensor) -> Tensor:
        """Return which groups (groups,) have images of their classes, given the number of `images` of each class (classes,)."""
        return images[torch.tensor(self.classes).to(images.device, non_blocking=True)].sum(1) > 0

    def expand_to_classes(self, values: Tensor) -> Tensor:
        """Repeat the values of each group (groups, ...) for its classes: (classes, ...)."""
        owner = {label: group for group, labels in enumerate(self.classes) for label in labels}
        groups = torch.tensor([owner[label] for label in range(len(owner))])
        return values[groups.to(values.device, non_blocking=True)]


class Outputs(NamedTuple):
    """The results of a forward pass: scores (B, outputs), the inputs of the last layer (B, D), the last maps (B, C, H, W), and
    the outputs of every block by its name, after dropout; those of `head` are the scores."""

    logits: Tensor
    penultimate: Tensor
    maps: Tensor
    blocks: dict[str, Tensor]

    def to_float32(self) -> "Outputs":
        """Convert all tensors to float32."""
        blocks = {name: tensor.float() for name, tensor in self.blocks.items()}
        return Outputs(self.logits.float(), self.penultimate.float(), self.maps.float(), blocks)


class Layers(nn.Sequential):
    """The layers of a block; `shape` is that of their outputs for one image.

    Create them on the device "meta". Raises ValueError for more than `MAX_BLOCK_WEIGHTS` weights."""

    def __init__(self, block: Block, inputs: Shape) -> None:
        super().__init__()
        for name, layer in block.layers(inputs).items():
            self.add_module(name, layer)
        for layer in self.modules():
            if isinstance(layer, nn.GroupNorm):
                layer.register_forward_pre_hook(_contiguous)
            elif isinstance(layer, nn.BatchNorm2d):
                layer.register_forward_pre_hook(_check_has_variance)
                layer.register_forward_pre_hook(_contiguous_in_a_stack)
        weights = sum(weight.numel() for weight in self.parameters())
        if weights > MAX_BLOCK_WEIGHTS:
            raise ValueError(f"{weights:,} weights, of at most {MAX_BLOCK_WEIGHTS:,}; set fewer units or a smaller width")
        self.dropout, self.channelwise = block.dropout, block.channelwise
        self.shape = _output_shape(self, inputs)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        features = super().forward(features)
        return features if mask is None else features * mask

    @property
    def mask_shape(self) -> Shape:
        return (self.shape[0], *[1] * (len(self.shape) - 1)) if self.channelwise else self.shape


@torch.no_grad()
def _output_shape(layers: Layers, inputs: Shape) -> Shape:
    """Return the shape of the outputs for one image, from a pass through an uninitialised copy on the processor: activation
    functions on "meta" make torch import its compiler, which takes longer than some runs."""
    with torch.device("cpu"):
        return tuple(copy.deepcopy(layers).to_empty(device="cpu")(torch.zeros(2, *inputs)).shape[1:])


def _check_has_variance(layer: nn.Module, inputs: tuple[Tensor]) -> None:
    """Raise UserError if a batch has a single number for each channel, which has no variance."""
    if layer.training and inputs[0][:, 0].numel() == 1:
        raise UserError(
            "batch_size: a batch of one image, whose maps are one pixel here, has no variance for batch normalisation; choose "
            "one with which no client has a last batch of one image"
        )


def _contiguous(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """Make inputs contiguous: torch's group normalisation copies the memory layout of its inputs, and `vmap` cannot copy a
    channels-last one."""
    return (inputs[0].contiguous(),)


def _contiguous_in_a_stack(layer: nn.BatchNorm2d, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
    """Under `vmap`, make inputs contiguous on CUDA, where torch's batch normalisation has the same limit; on a processor,
    convert them to the weight's type, since it does not mix bfloat16 with others."""
    levels = functorch.get_interpreter_stack() or ()
    if not any(level.key() == functorch.TransformType.Vmap for level in levels):
        return None
    return _contiguous(layer, inputs) if inputs[0].is_cuda else (inputs[0].to(layer.weight.dtype),)


class Stage(nn.Sequential):
    """A sequence of named blocks; `inputs` is the shape of the first one's inputs for one image."""

    def __init__(self, blocks: dict[str, Layers], inputs: Shape) -> None:
        super().__init__()
        for name, layers in blocks.items():
            self.add_module(name, layers)
        self.shape = [inputs, *(layers.shape for layers in blocks.values())][-1]
        self.dropout_blocks = tuple(name for name, layers in blocks.items() if layers.dropout)

    def forward(self, features: Tensor, *masks: Tensor) -> Tensor:
        return self.forward_blocks(features, masks)[0]

    def forward_blocks(self, features: Tensor, masks: Sequence[Tensor] = ()) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the last outputs, and those of each block by name. `masks`: one for each block with dropout, or none."""
        block_masks, outputs = dict(zip(self.dropout_blocks, masks, strict=False)), {}
        for name, layers in self.named_children():
            outputs[name] = features = layers(features, block_masks.get(name))
        return features, outputs


class Net(nn.Module):
    """A network: extractor -> hidden -> head. A weight is called `<stage>.<block>.<layer>.<weight>`, or `head.<weight>`.

    `init` names the distribution of its initial weights, for weights that a method adds (`models.initialise`). `groups`, if
    `models.with_groups` split it, tells which weights belong to which classes."""

    groups: Groups | None = None
    init: Init

    def __init__(self, extractor: Stage, hidden: Stage, head: nn.Linear | GroupedLinear, init: Init, spec: NetworkSpec) -> None:
        super().__init__()
        self.extractor, self.hidden, self.head, self.init, self.spec = extractor, hidden, head, init, spec

    def forward(self, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """Compute the outputs for `images` (B, C, H, W); `masks` come from `dropout_masks`, in training only."""
        maps, blocks = self.extractor.forward_blocks(images, masks)
        return self.classify(maps, masks, blocks)

    def classify(self, maps: Tensor, masks: tuple[Tensor, ...] = (), blocks: dict[str, Tensor] | None = None) -> Outputs:
        """Compute the part after the extractor, from its maps. `masks` are those of the whole network, `blocks` the outputs of
        the extractor's blocks."""
        penultimate, dense = self.hidden.forward_blocks(maps.flatten(1), masks[len(self.extractor.dropout_blocks) :])
        logits = self.head(penultimate)
        return Outputs(logits, penultimate, maps, {**(blocks or {}), **dense, "head": logits})

    @property
    def blocks(self) -> dict[str, nn.Module]:
        """All blocks in order, `head` last."""
        return {**dict(self.extractor.named_children()), **dict(self.hidden.named_children()), "head": self.head}

    @property
    def layers(self) -> list[tuple[str, ...]]:
        """The names of the weights and statistics of each block that has any, the head's last."""
        return [names for names in map(self.state_names, self.blocks) if names]

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of the weights that training changes, which are not frozen."""
        return tuple(name for name, weight in self.named_parameters() if weight.requires_grad)

    @property
    def channels(self) -> int:
        """The number of channels of the extractor's maps."""
        return self.extractor.shape[0]

    @property
    def dropout(self) -> bool:
        """Whether any block has dropout."""
        return bool(self.extractor.dropout_blocks or self.hidden.dropout_blocks)

    def state_names(self, block: str) -> tuple[str, ...]:
        """Return the full names of a block's weights and statistics, e.g. `extractor.conv1.layer.weight`."""
        return tuple(name for name in self.state_dict() if block in name.split(".")[:2])


def dropout_masks(
    net: Net, images: int, generator: torch.Generator | None, weights: Mapping[str, Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Draw the factors of dropout in one training step, on the network's device: one tensor for each block with dropout.

    A factor is 0 with the block's probability p, else 1 / (1 - p). Shapes: (images, units), (images, C, H, W), or
    (images, C, 1, 1) if whole maps are dropped. The width is that of the block's layer in `weights`, if it is there. Returns ()
    without dropout, and draws nothing."""
    kept, weights, like = [], weights or {}, net.head.weight
    for stage, blocks in (("extractor", net.extractor), ("hidden", net.hidden)):
        for name, layers in blocks.named_children():
            assert isinstance(layers, Layers)
            if layers.dropout:
                width, *places = layers.mask_shape
                width = len(weights.get(f"{stage}.{name}.layer.weight", range(width)))
                kept.append((torch.rand(images, width, *places, generator=generator) >= layers.dropout, layers.dropout))
    return tuple(mask.to(like, non_blocking=True) / (1 - rate) for mask, rate in kept)
