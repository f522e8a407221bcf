"""A network of named blocks in three stages: extractor (convolutions), hidden (dense layers), head
(scores)."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fedrepro.core.errors import UserError
from fedrepro.models._blocks import Block, GroupedLinear, Head, Init, Module, Shape, Weighted
from fedrepro.models._dropout import Call, multiplied, recorded

functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]  (not in the stubs)
MAX_BLOCK_WEIGHTS = 10**9  # 4 GB, some ten times the largest of the papers' networks
Normalisation = nn.modules.batchnorm._NormBase | nn.GroupNorm | nn.LayerNorm
KINDS = (
    "activation",
    "batchnorm",
    "container",
    "conv",
    "flatten",
    "linear",
    "normalization",
    "pooling",
)
# modules of these files draw nothing, with two exceptions, and have no state but running statistics
PLAIN_FILES = {
    *(f"torch.nn.modules.{kind}" for kind in KINDS),
    "torchvision.models.resnet",
    "fedrepro.models._blocks",
    __name__,
}


class NetworkSpec(NamedTuple):
    """The specification of a network: its blocks, the shape of an image, and the model's name for
    messages."""

    blocks: Sequence[Block | Head]
    image: Shape
    model: str


@dataclass(frozen=True)
class Groups:
    """The groups of a network: the `classes` of each, and the names of the `weights` whose first
    axis has one group after the other."""

    classes: tuple[tuple[int, ...], ...]
    weights: frozenset[str]

    def __len__(self) -> int:
        return len(self.classes)

    def split(self, tensor: Tensor) -> Tensor:
        """View one of the `weights` (N, ...) as (groups, N / groups, ...)."""
        return tensor.unflatten(0, (len(self), -1))

    def present(self, images: Tensor) -> Tensor:
        """Return which groups (groups,) have images of their classes, given the number of `images`
        of each class (classes,)."""
        return images[torch.tensor(self.classes).to(images.device, non_blocking=True)].sum(1) > 0

    def expand_to_classes(self, values: Tensor) -> Tensor:
        """Repeat the values of each group (groups, ...) for its classes: (classes, ...)."""
        owner = {label: group for group, labels in enumerate(self.classes) for label in labels}
        groups = torch.tensor([owner[label] for label in range(len(owner))])
        return values[groups.to(values.device, non_blocking=True)]


class Outputs(NamedTuple):
    """The results of a forward pass: scores (B, outputs), the inputs of the last layer (B, D), the
    last maps (B, C, H, W), and the outputs of every block by its name, after dropout; those of
    `head` are the scores."""

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

    Create them on the device "meta". Raises ValueError for more than `MAX_BLOCK_WEIGHTS`
    weights."""

    def __init__(self, block: Block, inputs: Shape) -> None:
        super().__init__()
        for name, layer in block.layers(inputs).items():
            self.add_module(name, layer)
        self.block, self.inputs = block, inputs
        self.custom = [
            name
            for name, layer in self.named_children()
            if isinstance(block, Module) or _has_own_tensors(layer)
        ]
        _add_hooks(self)
        weights = sum(weight.numel() for weight in self.parameters())
        if weights > MAX_BLOCK_WEIGHTS:
            raise ValueError(
                f"{weights:,} weights, of at most {MAX_BLOCK_WEIGHTS:,}; set fewer units or a "
                f"smaller width"
            )
        self.dropout, self.channelwise = block.dropout, block.channelwise
        self.draws = isinstance(block, Module) or not all(map(_is_plain, self.modules()))
        self._inner_calls: dict[int, list[Call]] = {}  # cache of `inner_calls`
        self.shape, self._inner_calls[2] = self._try_out(2)
        # number of dropout masks in a step
        self.masks = len(self._inner_calls[2]) + bool(self.dropout)

    def forward(self, features: Tensor, *masks: Tensor) -> Tensor:
        inner = self.masks - bool(self.dropout) if self.draws else 0
        with multiplied(masks[:inner]) if self.draws else nullcontext():
            features = super().forward(features)
        return features * masks[inner] if len(masks) > inner else features

    def inner_calls(self, images: int) -> list[Call]:
        """Return the calls of dropout by the layers themselves, in a step on so many images."""
        if images not in self._inner_calls and self._inner_calls[2]:
            self._inner_calls[images] = self._try_out(images)[1]
        return self._inner_calls.get(images, [])

    def construct(self, generator: torch.Generator) -> set[nn.Module]:
        """Give the custom layers, those with tensors that `initialise` does not know, the values
        from their constructors, for which `generator` takes the place of torch's own. Returns all
        modules in them."""
        if not self.custom:
            return set()
        with seeded(generator):
            made = self.block.layers(self.inputs)
        for name in self.custom:
            _add_hooks(made[name])
            setattr(self, name, made[name])
        return {part for name in self.custom for part in made[name].modules()}

    @torch.no_grad()
    def _try_out(self, images: int) -> tuple[Shape, list[Call]]:
        """Return the shape of the outputs for one image, and the calls of dropout in training on
        `images`. This computes with an uninitialised copy on the processor: activation functions on
        "meta" make torch import its compiler, which takes longer than some runs."""
        calls: list[Call] = []
        with torch.device("cpu"):
            trial = copy.deepcopy(self).to_empty(device="cpu").float().train()
            trial.construct(torch.Generator())
            with recorded(calls) if self.draws else nullcontext():
                # a user's may be another
                kind = next((weight.dtype for weight in trial.parameters()), torch.float32)
                outputs = nn.Sequential.forward(
                    trial, torch.zeros(images, *self.inputs, dtype=kind)
                )
        return tuple(outputs.shape[1:]), calls

    @property
    def mask_shape(self) -> Shape:
        return (self.shape[0], *[1] * (len(self.shape) - 1)) if self.channelwise else self.shape


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Let torch's own generator of the processor draw what a number from `generator` seeds;
    afterwards it is as before."""
    seed = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        yield


def _has_own_tensors(layer: nn.Module) -> bool:
    """Return whether any module in a layer has tensors and is of a kind that `initialise` does not
    know."""
    known = Weighted | Normalisation
    return any(
        [*part.parameters(False), *part.buffers(False)] and not isinstance(part, known)
        for part in layer.modules()
    )


def _is_plain(layer: nn.Module) -> bool:
    """Return whether a layer is known to draw no random numbers and to have no state but running
    statistics."""
    return type(layer).__module__ in PLAIN_FILES and not isinstance(
        layer, nn.MultiheadAttention | nn.RReLU
    )


def _add_hooks(layers: nn.Module) -> None:
    """Adapt the inputs of normalisation layers."""
    for layer in layers.modules():
        if isinstance(layer, nn.GroupNorm):
            layer.register_forward_pre_hook(_contiguous)
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.register_forward_pre_hook(_check_has_variance)
            if isinstance(layer, nn.BatchNorm2d):
                layer.register_forward_pre_hook(_contiguous_in_a_stack)


def _check_has_variance(layer: nn.Module, inputs: tuple[Tensor]) -> None:
    """Raise UserError if a batch has a single number for each channel, which has no variance."""
    if layer.training and inputs[0][:, 0].numel() == 1:
        raise UserError(
            "batch_size: a batch of one image, with one number for each channel here, has no "
            "variance for batch normalisation; choose one with which no client has a last batch of "
            "one image"
        )


def _contiguous(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """Make inputs contiguous: torch's group normalisation copies the memory layout of its inputs,
    and `vmap` cannot copy a channels-last one."""
    return (inputs[0].contiguous(),)


def _contiguous_in_a_stack(layer: nn.BatchNorm2d, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
    """Under `vmap`, make inputs contiguous on CUDA, where torch's batch normalisation has the same
    limit; on a processor, convert them to the weight's type, since it does not mix bfloat16 with
    others."""
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
        # number of dropout masks in a step
        self.masks = sum(layers.masks for layers in blocks.values())

    def forward(self, features: Tensor, *masks: Tensor) -> Tensor:
        return self.forward_blocks(features, masks)[0]

    def forward_blocks(
        self, features: Tensor, masks: Sequence[Tensor] = ()
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the last outputs, and those of each block by name. `masks`: those of all blocks in
        order, or none."""
        outputs: dict[str, Tensor] = {}
        for name, layers in self.named_children():
            assert isinstance(layers, Layers)
            outputs[name] = features = layers(features, *masks[: layers.masks])
            masks = masks[layers.masks :]
        return features, outputs


class Net(nn.Module):
    """A network: extractor -> hidden -> head. A weight is called
    `<stage>.<block>.<layer>.<weight>`, or `head.<weight>`.

    `init` names the distribution of its initial weights, for weights that a method adds
    (`models.initialise`). `groups`, if `models.with_groups` split it, tells which weights belong to
    which classes."""

    groups: Groups | None = None
    # the user's module, and the names here of its weights and buffers
    own: tuple[nn.Module, dict[str, str]] | None = None
    init: Init

    def __init__(
        self,
        extractor: Stage,
        hidden: Stage,
        head: nn.Linear | GroupedLinear,
        init: Init,
        spec: NetworkSpec,
    ) -> None:
        super().__init__()
        self.extractor, self.hidden, self.head, self.init, self.spec = (
            extractor,
            hidden,
            head,
            init,
            spec,
        )

    def forward(self, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """Compute the outputs for `images` (B, C, H, W); `masks` come from `dropout_masks`, in
        training only."""
        maps, blocks = self.extractor.forward_blocks(images, masks)
        return self.classify(maps, masks, blocks)

    def classify(
        self, maps: Tensor, masks: tuple[Tensor, ...] = (), blocks: dict[str, Tensor] | None = None
    ) -> Outputs:
        """Compute the part after the extractor, from its maps. `masks` are those of the whole
        network, `blocks` the outputs of the extractor's blocks."""
        penultimate, dense = self.hidden.forward_blocks(
            maps.flatten(1), masks[self.extractor.masks :]
        )
        logits = self.head(penultimate)
        return Outputs(logits, penultimate, maps, {**(blocks or {}), **dense, "head": logits})

    @property
    def blocks(self) -> dict[str, nn.Module]:
        """All blocks in order, `head` last."""
        return {
            **dict(self.extractor.named_children()),
            **dict(self.hidden.named_children()),
            "head": self.head,
        }

    @property
    def layers(self) -> list[tuple[str, ...]]:
        """The names of the weights and statistics of each block with weights that training changes,
        the head's last."""
        return [
            names
            for names in map(self.state_names, self.blocks)
            if not set(self.trained).isdisjoint(names)
        ]

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
        return bool(self.extractor.masks or self.hidden.masks)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All weights and buffers by name; one that several layers share occurs once."""
        first = {
            id(tensor): name for name, tensor in reversed(self.state_dict(keep_vars=True).items())
        }
        names = set(first.values())
        return {name: tensor for name, tensor in self.state_dict().items() if name in names}

    @property
    def draws(self) -> bool:
        """Whether any layer might draw random numbers, or is of a kind that is not known here."""
        return any(layers.draws for layers in self.modules() if isinstance(layers, Layers))

    def state_names(self, block: str) -> tuple[str, ...]:
        """Return the full names of a block's weights and statistics, e.g.
        `extractor.conv1.layer.weight`."""
        # blocks of the extractor and of the hidden part come after its name
        start = 0 if block == "head" else 1
        return tuple(name for name in self.state_dict() if name.split(".")[start] == block)


def dropout_masks(
    net: Net,
    images: int,
    generator: torch.Generator | None,
    weights: Mapping[str, Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Draw the factors of dropout in one training step, on the network's device: in the order of
    blocks, a tensor for each call of dropout by a block's layers, then one for the block's own
    dropout.

    A factor is 0 with the block's probability p, else 1 / (1 - p). Shapes: (images, units),
    (images, C, H, W), or (images, C, 1, 1) if whole maps are dropped. The width is that of the
    block's layer in `weights`, if it is there. Returns () without dropout, and draws nothing."""
    kept, weights, like = [], weights or {}, net.head.weight
    for stage, blocks in (("extractor", net.extractor), ("hidden", net.hidden)):
        for name, layers in blocks.named_children():
            assert isinstance(layers, Layers)
            kept += [
                (torch.rand(*shape, generator=generator) >= rate, rate)
                for shape, rate in layers.inner_calls(images)
            ]
            if layers.dropout:
                width, *places = layers.mask_shape
                width = len(weights.get(f"{stage}.{name}.layer.weight", range(width)))
                kept.append(
                    (
                        torch.rand(images, width, *places, generator=generator) >= layers.dropout,
                        layers.dropout,
                    )
                )
    return tuple(mask.to(like, non_blocking=True) / (1 - rate) for mask, rate in kept)
