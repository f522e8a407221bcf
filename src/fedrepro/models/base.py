"""Options of all networks, and the assembly of blocks into a network with reproducible initial
weights."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import model_validator
from torch import Tensor, nn

from fedrepro.config import registry
from fedrepro.config.types import Choice, Count, Frozen, Positive, Rate
from fedrepro.core.errors import UserError, error_prefix
from fedrepro.models._blocks import (
    Block,
    Conv,
    Dense,
    Depthwise,
    Head,
    Init,
    Module,
    Norm,
    Shape,
    Weighted,
    linear,
    multiple,
)
from fedrepro.models._net import Layers, Net, NetworkSpec, Normalisation, Stage

MAX_UNITS = 10**6  # the weights between two such layers fit into no memory


class Network(Frozen):
    """Base class of models: the options of all, from which `blocks` makes a network. `width` scales
    all hidden channels and units (scale quick)."""

    width: Positive = 1.0
    init: Init = "pytorch"
    dropout: Rate = 0.0  # of the units of every hidden dense layer, in training
    norm: Norm = "none"  # after every convolution
    norm_groups: Count | None = None  # for norm `group`; null: as many as the convolution has
    # weights that training does not change: `conv1`, `conv*`, `*.norm`, `conv2.layer.bias`
    frozen: tuple[str, ...] = ()

    def blocks(self, outputs: int) -> list[Block | Head]:
        """Return the blocks in order, the head last, for this number of outputs."""
        raise NotImplementedError

    def start(self, net: Net) -> None:
        """Load weights that were trained elsewhere, after initial ones were drawn."""

    def scaled(self, units: int, of: int = 1) -> int:
        """Return the number of units at this width, rounded to a multiple of `of`. Raises UserError
        above `MAX_UNITS`."""
        if units * self.width > MAX_UNITS:
            raise UserError(
                f"model: a layer of {units * self.width:g} units, of at most {MAX_UNITS:g}; set "
                f"fewer units or a smaller width"
            )
        return multiple(units * self.width, of)

    def conv(
        self, name: str, filters: int, kernel: int, pool: nn.Module | None = None, **options: Any
    ) -> Conv:
        """Create a convolution with these options; its channels are a multiple of all its
        groups."""
        options = {"norm": self.norm, "norm_groups": self.norm_groups} | options
        normalised = options["norm_groups"] if options["norm"] == "group" else None
        return Conv(
            name,
            self.scaled(filters, math.lcm(options.get("groups", 1), normalised or 1)),
            kernel,
            pool,
            **options,
        )

    def depthwise(self, name: str, kernel: int, **options: Any) -> Depthwise:
        """Create a depthwise convolution with these options."""
        options = {"norm": self.norm, "norm_groups": self.norm_groups} | options
        return Depthwise(name, kernel, **options)

    def dense(self, name: str, units: int, **options: Any) -> Dense:
        """Create a hidden dense layer with these options; its units are a multiple of its
        groups."""
        options = {"dropout": self.dropout} | options
        return Dense(name, self.scaled(units, options.get("groups", 1)), **options)


class PaperOrCode(Network):
    """Options of a network that the paper and its authors' code describe differently, each with its
    own initial weights."""

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
    """Return the blocks of the named model, the head last."""
    return _network(choice).blocks(outputs)


def build(choice: Choice, shape: Shape, outputs: int, generator: torch.Generator) -> Net:
    """Build the named model for images of `shape` (C, H, W); initial weights depend on `generator`
    alone."""
    network = _network(choice)
    net = assemble(network.blocks(outputs), shape, network.init, generator, choice.name)
    network.start(net)
    freeze(net, network.frozen, choice.name)
    return net


def _network(choice: Choice) -> Network:
    return cast(Network, registry.parse_options("models", choice))


def assemble(
    blocks: Sequence[Block | Head],
    shape: Shape,
    init: Init,
    generator: torch.Generator,
    model: str = "of blocks",
) -> Net:
    """Assemble a network from blocks, the head last; the extractor ends before the first dense
    block.

    Raises UserError if the images are too small or groups do not divide a width."""
    with error_prefix(f"model {model}"):
        return connect_blocks(blocks, shape, init, generator, model)


def connect_blocks(
    blocks: Sequence[Block | Head], shape: Shape, init: Init, generator: torch.Generator, model: str
) -> Net:
    """Do the same as `assemble`, with errors that do not name the model."""
    inner, head = cast(Sequence[Block], blocks[:-1]), cast(Head, blocks[-1])
    if len(names := {block.name for block in blocks}) < len(blocks):
        raise TypeError(
            f"model {model}: each of its blocks needs a name of its own "
            f"({', '.join(sorted(names))})"
        )
    first = next((place for place, block in enumerate(inner) if block.flat), len(inner))
    with torch.device("meta"):  # no weights yet, so that torch's global generator is not touched
        extractor = _stage(inner[:first], shape, shape)
        hidden = _stage(inner[first:], (math.prod(extractor.shape),), shape)
        with _raise_user_errors(head, shape):
            [units] = hidden.shape
            scores = linear(units, head.outputs, head.groups, head.order)
    net = Net(extractor, hidden, scores, init, NetworkSpec(blocks, shape, model))
    net = net.to_empty(device="cpu")
    initialise(net, init, generator)
    return net


def _stage(blocks: Sequence[Block], inputs: Shape, image: Shape) -> Stage:
    """Return the layers of the blocks, without values, each for the output shape of the one
    before."""
    stage, shape = {}, inputs
    for block in blocks:
        with _raise_user_errors(block, image):
            stage[block.name] = layers = Layers(block, shape)
        shape = layers.shape
    return Stage(stage, inputs)


@contextmanager
def _raise_user_errors(block: Block | Head, image: Shape) -> Iterator[None]:
    """Raise torch's errors about a block's groups, or about images that are too small for it, as
    UserError."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{block.name}: {error}") from error
    except RuntimeError as error:
        if isinstance(block, Module):
            raise UserError(f"{block.name}: {error}") from error
        size = "x".join(map(str, image[1:]))
        raise UserError(f"images of {size} are too small for its pooling layers") from error


def initialise(module: nn.Module, init: Init, generator: torch.Generator) -> None:
    """Draw new weights for all layers of a module, in order; normalisation becomes the identity.
    Custom layers are constructed again (`Layers.construct`)."""
    constructed: set[nn.Module] = set()
    for part in list(module.modules()):
        if isinstance(part, Layers):
            constructed |= part.construct(generator)
    for part in module.modules():
        if part in constructed:
            continue
        if isinstance(part, Weighted):
            INITS[init](part, generator)
        elif isinstance(part, Normalisation):
            part.reset_parameters()
        elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
            raise TypeError(f"no initial weights are defined here for {type(part).__name__}")


def freeze(net: Net, patterns: Sequence[str], model: str = "of blocks") -> None:
    """Freeze the weights that match a pattern: a block, a layer `block.layer` or a weight
    `block.layer.weight`, with the wildcards of file names. Running statistics still change. Raises
    UserError for a pattern without a match."""
    for pattern in patterns:
        matches = [weight for name, weight in net.named_parameters() if _matches(name, pattern)]
        if not matches:
            raise UserError(
                f"model {model}: frozen: no weight is called {pattern}: its blocks are "
                f"{', '.join(net.blocks)}"
            )
        for weight in matches:
            weight.requires_grad_(False)


def _matches(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a weight, its layer or its block."""
    path = name.removeprefix("extractor.").removeprefix("hidden.").split(".")
    return any(fnmatchcase(".".join(path[:depth]), pattern) for depth in range(1, len(path) + 1))


def _pytorch(layer: Weighted, generator: torch.Generator) -> None:
    """Draw as torch by default: weights and biases uniform in +-1/sqrt(fan_in)."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _glorot(layer: Weighted, generator: torch.Generator) -> None:
    """Draw Glorot (Xavier) uniform weights, for each group as for a layer; biases are 0."""
    for part in _groups(layer):
        nn.init.xavier_uniform_(part, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _truncated_normal(layer: Weighted, generator: torch.Generator) -> None:
    """Draw as TensorFlow's tutorial: N(0, 0.1^2) cut at two standard deviations; biases are 0.1."""
    nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2, generator=generator)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, 0.1)


def _groups(layer: Weighted) -> tuple[Tensor, ...]:
    """Return the weights of each group."""
    return layer.weight.detach().chunk(getattr(layer, "groups", 1))


INITS = {"pytorch": _pytorch, "glorot": _glorot, "truncated_normal": _truncated_normal}
