"""What a network is described with: named blocks, which become layers once the shape of what they get is known."""

from dataclasses import KW_ONLY, dataclass
from math import prod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]  # of one image, without the axis of the batch
Norm = Literal["none", "batch", "group"]


@dataclass(frozen=True)
class Block:
    """A named part of a network: some layers, then dropout. `layers` is all that a new kind of block has to say."""

    name: str
    _: KW_ONLY
    dropout: float = 0.0  # of its outputs, in training
    channelwise: bool = False  # whether whole maps are dropped ("Dropout2d") or numbers
    flat: ClassVar[bool] = False  # whether it takes (B, D) in place of (B, C, H, W)

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        """By their names, in their order; `shape` is that of its inputs. The names of the weights are made of these names."""
        raise NotImplementedError


@dataclass(frozen=True)
class Conv(Block):
    """Convolution, normalisation, activation, pooling. Maximum and ReLU commute: pooling then comes first, for less work."""

    filters: int
    kernel: int
    pool: nn.Module | None = None
    _: KW_ONLY
    padding: int | None = None  # None: an odd kernel keeps the size of the maps
    stride: int = 1
    bias: bool = True
    groups: int = 1
    norm: Norm = "none"
    norm_groups: int | None = None  # of norm "group"; None: as many as `groups`
    activation: type[nn.Module] | None = nn.ReLU

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        padding = self.kernel // 2 if self.padding is None else self.padding
        layer = nn.Conv2d(shape[0], self.filters, self.kernel, self.stride, padding, groups=self.groups, bias=self.bias)
        found: dict[str, nn.Module | None] = {"layer": layer, "norm": self._normalisation()}
        after = {"activation": self.activation and self.activation(), "pool": self.pool}
        if self.activation is nn.ReLU and isinstance(self.pool, nn.MaxPool2d):
            after = dict(reversed(after.items()))
        return {name: part for name, part in (found | after).items() if part is not None}

    def _normalisation(self) -> nn.Module | None:
        if self.norm == "group":
            return nn.GroupNorm(self.norm_groups or self.groups, self.filters)
        return nn.BatchNorm2d(self.filters) if self.norm == "batch" else None


@dataclass(frozen=True)
class Dense(Block):
    """Dense layer, activation. With `groups`, so many layers side by side."""

    units: int
    _: KW_ONLY
    groups: int = 1
    activation: type[nn.Module] | None = nn.ReLU
    flat: ClassVar[bool] = True

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        layer = linear(prod(shape), self.units, self.groups)
        return {"layer": layer} | ({"activation": self.activation()} if self.activation else {})


@dataclass(frozen=True)
class Head:
    """The last layer, `head`: scores. With `groups` ("decoupled"), each group of them sees its group of units alone."""

    outputs: int
    groups: int = 1
    name: ClassVar[str] = "head"


class GroupedLinear(nn.Module):
    """Dense layers side by side: a group of units sees its slice of the inputs alone, as in a grouped 1x1 convolution.

    (B, inputs) -> (B, outputs), both in groups of equal size one after the other; `weight` is (outputs, inputs / groups), so
    that its rows belong to the groups in turn. Raises ValueError where a width is no multiple of `groups`.
    """

    def __init__(self, in_features: int, out_features: int, groups: int) -> None:
        super().__init__()
        if in_features % groups or out_features % groups:
            raise ValueError(f"{in_features} inputs and {out_features} units cannot be shared out among {groups} groups")
        self.in_features, self.out_features, self.groups = in_features, out_features, groups
        self.weight = nn.Parameter(torch.empty(out_features, in_features // groups))
        self.bias = nn.Parameter(torch.empty(out_features))

    def forward(self, features: Tensor) -> Tensor:
        slices = features.unflatten(1, (self.groups, -1)).transpose(0, 1)  # (groups, B, inputs / groups)
        products = slices @ self.weight.unflatten(0, (self.groups, -1)).transpose(1, 2)
        return products.transpose(0, 1).flatten(1) + self.bias


def linear(inputs: int, outputs: int, groups: int = 1) -> nn.Linear | GroupedLinear:
    """A dense layer; plain where there is one group."""
    return nn.Linear(inputs, outputs) if groups == 1 else GroupedLinear(inputs, outputs, groups)


def multiple(units: float, of: int = 1) -> int:
    """The nearest multiple of `of`, at least `of`: a width that groups can share."""
    return max(1, round(units / of)) * of
