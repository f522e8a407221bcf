"""What every network shares: three named stages, reproducible initial weights, dropout that is drawn outside."""

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from fedrepro import registry
from fedrepro.config import Choice, Fraction, Frozen, Positive, parse
from fedrepro.errors import UserError

Init = Literal["pytorch", "glorot", "truncated_normal"]


class BaseParams(Frozen):
    """Options of every model. `width` scales all hidden channels and units (scale quick)."""

    width: Positive = 1.0
    init: Init = "pytorch"
    dropout: Annotated[Fraction, Field(lt=1)] = 0.0  # of the units of every hidden dense layer, in training

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
    """What a forward pass returns: scores (B, classes), the layer before (B, D), the last maps (B, C, H, W)."""

    logits: Tensor
    penultimate: Tensor
    maps: Tensor


class Hidden(nn.Sequential):
    """Dense layers, each followed by ReLU and then, where dropout is on, multiplied by its mask."""

    def forward(self, features: Tensor, *masks: Tensor) -> Tensor:
        waiting = iter(masks)
        for layer in self:
            features = layer(features)
            if masks and isinstance(layer, nn.ReLU):
                features = features * next(waiting)
        return features


class Net(nn.Module):
    """Extractor (convolutions) -> hidden (dense layers) -> head (class scores). `channels`: of the extractor's maps."""

    def __init__(self, extractor: nn.Module, hidden: nn.Module, head: nn.Linear, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.extractor, self.hidden, self.head = extractor, hidden, head
        self.channels, self.dropout = channels, dropout

    def forward(self, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """`images`: (B, C, H, W); `masks`: what `dropout_masks` drew, in training only."""
        return self.classify(self.extractor(images), masks)

    def classify(self, maps: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """The part after the extractor."""
        penultimate = self.hidden(maps.flatten(1), *masks)
        return Outputs(self.head(penultimate), penultimate, maps)


def dropout_masks(net: Net, images: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """What dropout multiplies the units with in one training step: for each hidden layer a tensor (images, units) of 0, with
    probability `net.dropout`, or else 1 / (1 - dropout). () without dropout, and nothing is drawn. On the network's device."""
    if net.dropout == 0:
        return ()
    units = [layer.out_features for layer in net.hidden if isinstance(layer, nn.Linear)]
    kept = [torch.rand(images, width, generator=generator) >= net.dropout for width in units]
    return tuple(mask.to(net.head.weight, non_blocking=True) / (1 - net.dropout) for mask in kept)


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
        maps = _maps(extractor, shape, choice.name)
        hidden, units = [], maps.numel()
        for size in sizes:
            hidden += [nn.Linear(units, size), nn.ReLU()]
            units = size
        net = Net(extractor, Hidden(*hidden), nn.Linear(units, classes), maps.shape[1], params.dropout)
    net = net.to_empty(device="cpu")
    for part in net.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            INITS[params.init](part, generator)
        elif isinstance(part, nn.modules.batchnorm._NormBase | nn.GroupNorm | nn.LayerNorm):
            part.reset_parameters()
            if isinstance(part, nn.GroupNorm):
                part.register_forward_pre_hook(_contiguous)
        elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
            raise TypeError(f"model {choice.name}: say here how {type(part).__name__} starts")
    return net


def _contiguous(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """torch's group normalisation asks for a copy in the memory layout of its inputs, which `vmap` cannot make of channels that
    lie last."""
    return (inputs[0].contiguous(),)


def _maps(extractor: nn.Module, shape: tuple[int, int, int], name: str) -> Tensor:
    """The extractor's maps of one image, without values."""
    try:
        return extractor(torch.empty(1, *shape, device="meta"))
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
