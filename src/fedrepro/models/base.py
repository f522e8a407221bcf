"""What every network shares: three named stages, reproducible initial weights."""

import math
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import model_validator
from torch import Tensor, nn

from fedrepro import registry
from fedrepro.config import Choice, Frozen, Positive, parse
from fedrepro.errors import UserError

Init = Literal["pytorch", "glorot", "truncated_normal"]


class BaseParams(Frozen):
    """Options of every model. `width` scales all hidden channels and units (scale quick)."""

    width: Positive = 1.0
    init: Init = "pytorch"

    def scaled(self, units: int) -> int:
        return max(1, round(units * self.width))


class PaperOrCode(BaseParams):
    """Options of a network that the paper and its authors' code describe differently, each with its own initial weights."""

    arch: Literal["paper", "code"] = "paper"
    inits: ClassVar[dict[str, Init]]

    @model_validator(mode="before")
    @classmethod
    def _own_init(cls, values: Any) -> Any:
        if isinstance(values, dict) and "init" not in values and values.get("arch", "paper") in cls.inits:
            return values | {"init": cls.inits[values.get("arch", "paper")]}
        return values


class Outputs(NamedTuple):
    """What a forward pass returns: scores (B, classes), the layer before (B, D), the extractor's maps (B, C, H, W)."""

    logits: Tensor
    penultimate: Tensor
    maps: Tensor


class Net(nn.Module):
    """Extractor (convolutions) -> hidden (dense layers) -> head (class scores)."""

    def __init__(self, extractor: nn.Module, hidden: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.extractor, self.hidden, self.head = extractor, hidden, head

    def forward(self, images: Tensor) -> Outputs:
        """`images`: (B, C, H, W)."""
        maps = self.extractor(images)
        penultimate = self.hidden(maps.flatten(1))
        return Outputs(self.head(penultimate), penultimate, maps)


def conv_pool(channels: int, filters: int, kernel: int, pool: nn.Module | None) -> list[nn.Module]:
    """Same-size convolution, pooling, ReLU. Pooling first gives the numbers of ReLU first (the two commute) for less work."""
    layers: list[nn.Module] = [nn.Conv2d(channels, filters, kernel, padding=kernel // 2)]
    return [*layers, *([pool] if pool else []), nn.ReLU()]


def build(choice: Choice, shape: tuple[int, int, int], classes: int, generator: torch.Generator) -> Net:
    """The network for images of `shape` (C, H, W), its initial weights drawn from `generator` alone."""
    module = registry.module("models", choice.name)
    params = parse(module.Params, choice.options, f"model {choice.name}")
    with torch.device("meta"):  # no weights yet, so that torch's global generator is not touched
        extractor, sizes = module.layers(params, shape)
        features = _features(extractor, shape, choice.name)
        hidden, units = [], features
        for size in sizes:
            hidden += [nn.Linear(units, size), nn.ReLU()]
            units = size
        net = Net(extractor, nn.Sequential(*hidden), nn.Linear(units, classes))
    net = net.to_empty(device="cpu")
    for part in net.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            INITS[params.init](part, generator)
        elif isinstance(part, nn.modules.batchnorm._NormBase | nn.GroupNorm | nn.LayerNorm):
            part.reset_parameters()
        elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
            raise TypeError(f"model {choice.name}: say here how {type(part).__name__} starts")
    return net


def _features(extractor: nn.Module, shape: tuple[int, int, int], name: str) -> int:
    try:
        return extractor(torch.empty(1, *shape, device="meta")).numel()
    except RuntimeError:
        raise UserError(f"model {name}: images of {shape[1]}x{shape[2]} are too small for its pooling layers") from None


def _pytorch(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
    """torch's own default: weights and biases uniform in +-1/sqrt(fan_in)."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _glorot(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
    """Glorot (Xavier) uniform weights, zero biases."""
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _truncated_normal(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
    """TensorFlow's tutorial initialiser: N(0, 0.1^2) cut at two deviations, biases 0.1."""
    nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2, generator=generator)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, 0.1)


INITS = {"pytorch": _pytorch, "glorot": _glorot, "truncated_normal": _truncated_normal}
