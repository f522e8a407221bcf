"""What a network is described with: named blocks, which become layers once the shape of what they get is known."""

from dataclasses import KW_ONLY, dataclass, field, replace
from math import lcm, prod
from typing import Any, ClassVar, Literal

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

    def grouped(self, groups: int, norm: bool) -> "Block":
        """The same in groups, which share its width out in turn and see nothing of each other; with a group normalisation for
        each if `norm`. What is not written for a kind of block raises NotImplementedError."""
        raise NotImplementedError

    def widened(self, of: int) -> "Block":
        """The same with the nearest width that is a multiple of `of`."""
        return self


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
        return self._convolved(shape[0], self.filters, self.groups)

    def grouped(self, groups: int, norm: bool) -> "Conv":
        own: dict[str, Any] = {"norm": "group", "norm_groups": groups} if norm else {}
        return replace(self.widened(groups), groups=lcm(groups, self.groups), **own)

    def widened(self, of: int) -> "Conv":
        normalised = self.norm_groups if self.norm == "group" else None
        return replace(self, filters=multiple(self.filters, lcm(of, self.groups, normalised or 1)))

    def _convolved(self, inputs: int, filters: int, groups: int) -> dict[str, nn.Module]:
        padding = self.kernel // 2 if self.padding is None else self.padding
        layer = nn.Conv2d(inputs, filters, self.kernel, self.stride, padding, groups=groups, bias=self.bias)
        found: dict[str, nn.Module | None] = {"layer": layer, "norm": self._normalisation(filters)}
        after = {"activation": self.activation and self.activation(), "pool": self.pool}
        if self.activation is nn.ReLU and isinstance(self.pool, nn.MaxPool2d):
            after = dict(reversed(after.items()))
        return {name: part for name, part in (found | after).items() if part is not None}

    def _normalisation(self, filters: int) -> nn.Module | None:
        if self.norm == "group":
            return nn.GroupNorm(self.norm_groups or self.groups, filters)
        return nn.BatchNorm2d(filters) if self.norm == "batch" else None


@dataclass(frozen=True)
class Depthwise(Conv):
    """One filter for each channel of its inputs: it has as many as the block before."""

    filters: int = field(default=0, init=False)

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        return self._convolved(shape[0], shape[0], shape[0])

    def widened(self, of: int) -> "Depthwise":
        return self


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

    def grouped(self, groups: int, norm: bool) -> "Dense":
        return replace(self.widened(groups), groups=lcm(groups, self.groups))

    def widened(self, of: int) -> "Dense":
        return replace(self, units=multiple(self.units, lcm(of, self.groups)))


@dataclass(frozen=True)
class Head:
    """The last layer, `head`: scores. With `groups` ("decoupled"), each group of them sees its group of units alone; `order`
    names the scores in the order of the groups, None: as they come."""

    outputs: int
    groups: int = 1
    order: tuple[int, ...] | None = None
    name: ClassVar[str] = "head"


class GroupedLinear(nn.Module):
    """Dense layers side by side: a group of units sees its slice of the inputs alone, as in a grouped 1x1 convolution.

    (B, inputs) -> (B, outputs), both in groups of equal size one after the other; `weight` is (outputs, inputs / groups), so
    that its rows belong to the groups in turn. `order`: which output each row gives; None: they come in order. Raises
    ValueError where a width is no multiple of `groups`.
    """

    def __init__(self, in_features: int, out_features: int, groups: int, order: tuple[int, ...] | None = None) -> None:
        super().__init__()
        rows = tuple(range(out_features))
        self.rows = None if order in (None, rows) else sorted(rows, key=lambda row: order[row])  # of each output
        if in_features % groups or out_features % groups:
            raise ValueError(f"{in_features} inputs and {out_features} units cannot be shared out among {groups} groups")
        self.in_features, self.out_features, self.groups = in_features, out_features, groups
        self.weight = nn.Parameter(torch.empty(out_features, in_features // groups))
        self.bias = nn.Parameter(torch.empty(out_features))

    def forward(self, features: Tensor) -> Tensor:
        slices = features.unflatten(1, (self.groups, -1)).transpose(0, 1)  # (groups, B, inputs / groups)
        products = slices @ self.weight.unflatten(0, (self.groups, -1)).transpose(1, 2)
        outputs = products.transpose(0, 1).flatten(1) + self.bias
        return outputs if self.rows is None else outputs.index_select(1, torch.tensor(self.rows, device=outputs.device))


Weighted = nn.Conv2d | nn.Linear | GroupedLinear  # layers that multiply with weights


def linear(inputs: int, outputs: int, groups: int = 1, order: tuple[int, ...] | None = None) -> nn.Linear | GroupedLinear:
    """A dense layer; plain where there is one group."""
    return nn.Linear(inputs, outputs) if groups == 1 else GroupedLinear(inputs, outputs, groups, order)


def multiple(units: float, of: int = 1) -> int:
    """The nearest multiple of `of`, at least `of`: a width that groups can share."""
    return max(1, round(units / of)) * of
