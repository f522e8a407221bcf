"""What every network shares: its options, and how blocks become a network with reproducible initial weights."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn

from fedrepro.config import registry
from fedrepro.config.types import Choice, Count, Frozen, Positive, Rate
from fedrepro.core.errors import UserError, error_prefix
from fedrepro.models._blocks import Block, Conv, Dense, Depthwise, Head, Norm, Shape, Weighted, linear, multiple
from fedrepro.models._net import Layers, Net, NetworkSpec, Stage

Init = Literal["pytorch", "glorot", "truncated_normal"]
UNITS = 10**6  # two such layers have more weights than any memory
NORMS = nn.modules.batchnorm._NormBase | nn.GroupNorm | nn.LayerNorm


class BaseParams(Frozen):
    """Options of every model. `width` scales all hidden channels and units (scale quick)."""

    width: Positive = 1.0
    init: Init = "pytorch"
    dropout: Rate = 0.0  # of the units of every hidden dense layer, in training
    norm: Norm = "none"  # after every convolution
    norm_groups: Count | None = None  # of norm `group`; null: as many as the convolution has
    frozen: tuple[str, ...] = ()  # weights that keep their start: `conv1`, `conv*`, `*.norm`, `conv2.layer.bias`

    def scaled(self, units: int, of: int = 1) -> int:
        """So many units at this width, a multiple of `of`. Raises UserError for more than a layer can have."""
        if units * self.width > UNITS:
            raise UserError(
                f"model: a layer of {units * self.width:g} units, of at most {UNITS:g}; set fewer units or a smaller width"
            )
        return multiple(units * self.width, of)

    def conv(self, name: str, filters: int, kernel: int, pool: nn.Module | None = None, **options: Any) -> Conv:
        """A convolution under these options; its channels are a multiple of all its groups."""
        options = {"norm": self.norm, "norm_groups": self.norm_groups} | options
        normalised = options["norm_groups"] if options["norm"] == "group" else None
        return Conv(name, self.scaled(filters, math.lcm(options.get("groups", 1), normalised or 1)), kernel, pool, **options)

    def depthwise(self, name: str, kernel: int, **options: Any) -> Depthwise:
        """A convolution of each channel by itself, under these options."""
        return Depthwise(name, kernel, **{"norm": self.norm, "norm_groups": self.norm_groups} | options)

    def dense(self, name: str, units: int, **options: Any) -> Dense:
        """A hidden dense layer under these options; its units are a multiple of its groups."""
        return Dense(name, self.scaled(units, options.get("groups", 1)), **{"dropout": self.dropout} | options)


class PaperOrCode(BaseParams):
    """Options of a network that the paper and its authors' code describe differently, each with its own initial weights."""

    arch: Literal["paper", "code"] = "paper"
    inits: ClassVar[dict[str, Init]]

    @model_validator(mode="before")
    @classmethod
    def _own_init(cls, values: Any) -> Any:
        arch = values.get("arch", "paper") if isinstance(values, dict) else None
        if isinstance(arch, str) and arch in cls.inits and "init" not in values:
            return values | {"init": cls.inits[arch]}
        return values


def blocks(choice: Choice, outputs: int) -> list[Block | Head]:
    """What the network is made of, the head last."""
    return registry.find("models", choice.name).blocks(registry.parse_options("models", choice), outputs)


def build(choice: Choice, shape: tuple[int, int, int], outputs: int, generator: torch.Generator) -> Net:
    """The network for images of `shape` (C, H, W), its initial weights drawn from `generator` alone."""
    module = registry.find("models", choice.name)
    params = registry.parse_options("models", choice)
    net = assemble(blocks(choice, outputs), shape, params.init, generator, choice.name)
    if hasattr(module, "start"):
        module.start(net, params)
    freeze(net, params.frozen, choice.name)
    return net


def assemble(
    blocks: Sequence[Block | Head], shape: Shape, init: Init, generator: torch.Generator, model: str = "of blocks"
) -> Net:
    """A network of these blocks, the last of which is its head; the extractor ends before the first dense one. Raises UserError
    where the images are too small or a width does not suit its groups."""
    with error_prefix(f"model {model}"):
        return joined(blocks, shape, init, generator, model)


def joined(blocks: Sequence[Block | Head], shape: Shape, init: Init, generator: torch.Generator, model: str) -> Net:
    """As `assemble`; errors do not name the model."""
    *inner, head = blocks
    if len(names := {block.name for block in blocks}) < len(blocks):
        raise TypeError(f"model {model}: each of its blocks needs a name of its own ({', '.join(sorted(names))})")
    first = next((place for place, block in enumerate(inner) if block.flat), len(inner))
    with torch.device("meta"):  # no weights yet, so that torch's global generator is not touched
        extractor = _stage(inner[:first], shape, shape)
        hidden = _stage(inner[first:], (math.prod(extractor.shape),), shape)
        with _suiting(head, shape):
            scores = linear(*hidden.shape, head.outputs, head.groups, head.order)
    net = Net(extractor, hidden, scores, init, NetworkSpec(blocks, shape, model))
    net = net.to_empty(device="cpu")
    initialise(net, init, generator)
    return net


def _stage(blocks: Sequence[Block], inputs: Shape, image: Shape) -> Stage:
    """Their layers, without values; each learns from the one before what it gets."""
    found, shape = {}, inputs
    for block in blocks:
        with _suiting(block, image):
            found[block.name] = layers = Layers(block, shape)
        shape = layers.shape
    return Stage(found, inputs)


@contextmanager
def _suiting(block: Block | Head, image: Shape) -> Iterator[None]:
    """What torch says of a block whose groups do not suit its widths, or that has nothing left to look at."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{block.name}: {error}") from error
    except RuntimeError as error:
        size = "x".join(map(str, image[1:]))
        raise UserError(f"images of {size} are too small for its pooling layers") from error


def initialise(module: nn.Module, init: str, generator: torch.Generator) -> None:
    """Draw the weights of all layers of a module anew, in their order; normalisation starts as the identity."""
    for part in module.modules():
        if isinstance(part, Weighted):
            INITS[init](part, generator)
        elif isinstance(part, NORMS):
            part.reset_parameters()
        elif isinstance(part, nn.modules.dropout._DropoutNd):
            raise TypeError(f"{type(part).__name__} draws from torch's global generator: say `dropout` of the block instead")
        elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
            raise TypeError(f"say here how {type(part).__name__} starts")


def freeze(net: Net, patterns: Sequence[str], model: str = "of blocks") -> None:
    """Keep the weights that a pattern names as they are: a block, a layer `block.layer` or a weight `block.layer.weight`, with
    the wildcards of file names. Running statistics still follow the data. Raises UserError for a pattern without a weight."""
    for pattern in patterns:
        found = [weight for name, weight in net.named_parameters() if _named(name, pattern)]
        if not found:
            raise UserError(f"model {model}: frozen: no weight is called {pattern}: its blocks are {', '.join(net.blocks)}")
        for weight in found:
            weight.requires_grad_(False)


def _named(name: str, pattern: str) -> bool:
    """Whether a pattern fits a weight, or the block or layer that it is of."""
    path = name.removeprefix("extractor.").removeprefix("hidden.").split(".")
    return any(fnmatchcase(".".join(path[:depth]), pattern) for depth in range(1, len(path) + 1))


def _pytorch(layer: Weighted, generator: torch.Generator) -> None:
    """torch's own default: weights and biases uniform in +-1/sqrt(fan_in)."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _glorot(layer: Weighted, generator: torch.Generator) -> None:
    """Glorot (Xavier) uniform weights, zero biases; each group is a layer of its own."""
    for part in _groups(layer):
        nn.init.xavier_uniform_(part, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _truncated_normal(layer: Weighted, generator: torch.Generator) -> None:
    """TensorFlow's tutorial initialiser: N(0, 0.1^2) cut at two deviations, biases 0.1."""
    nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2, generator=generator)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, 0.1)


def _groups(layer: nn.Module) -> tuple[Tensor, ...]:
    """The weights of its groups."""
    return layer.weight.detach().chunk(getattr(layer, "groups", 1))


INITS = {"pytorch": _pytorch, "glorot": _glorot, "truncated_normal": _truncated_normal}
