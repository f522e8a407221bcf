"""Blocks that describe a network; they become layers once the shape of their inputs is known."""

import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from math import lcm, prod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]  # of one image, without the batch axis
Norm = Literal["none", "batch", "group"]
Init = Literal["pytorch", "glorot", "truncated_normal"]


@dataclass(frozen=True)
class Block:
    """A named part of a network: some layers, then dropout. A new kind of block has to define
    `layers` only."""

    name: str
    _: KW_ONLY
    dropout: float = 0.0  # of its outputs, in training
    channelwise: bool = False  # drop whole maps ("Dropout2d") instead of single units
    flat: ClassVar[bool] = False  # inputs are (B, D) instead of (B, C, H, W)

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        """Return the layers by name, in order, for inputs of `shape`. The names are parts of the
        weights' names."""
        raise NotImplementedError

    def grouped(self, groups: int, norm: bool) -> "Block":
        """Return the block split into independent groups of equal width; with group normalisation
        of each if `norm`.

        Raises NotImplementedError if this kind of block cannot be split."""
        raise NotImplementedError

    def widened(self, of: int) -> "Block":
        """Return the block with the nearest width that is a multiple of `of`."""
        return self


@dataclass(frozen=True)
class Module(Block):
    """A module that the user made; its weights keep their values. `rows` makes its inputs from
    images, if it takes others."""

    module: nn.Module
    rows: nn.Module | None = None

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        return ({"rows": self.rows} if self.rows else {}) | {"module": copy.deepcopy(self.module)}


@dataclass(frozen=True)
class FlatModule(Module):
    """A module on inputs (B, D)."""

    flat: ClassVar[bool] = True


@dataclass(frozen=True)
class Conv(Block):
    """Convolution, normalisation, activation, pooling. Max pooling comes before ReLU, which gives
    the same with less work."""

    filters: int
    kernel: int
    pool: nn.Module | None = None
    _: KW_ONLY
    # None: kernel // 2, with which an odd kernel keeps the size of the maps
    padding: int | None = None
    stride: int = 1
    bias: bool = True
    groups: int = 1
    norm: Norm = "none"
    norm_groups: int | None = None  # for norm "group"; None: as many as `groups`
    activation: type[nn.Module] | None = nn.ReLU

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        return self._convolved(shape[0], self.filters, self.groups)

    def grouped(self, groups: int, norm: bool) -> "Conv":
        options: dict[str, Any] = {"norm": "group", "norm_groups": groups} if norm else {}
        return replace(self.widened(groups), groups=lcm(groups, self.groups), **options)

    def widened(self, of: int) -> "Conv":
        normalised = self.norm_groups if self.norm == "group" else None
        return replace(self, filters=multiple(self.filters, lcm(of, self.groups, normalised or 1)))

    def _convolved(self, inputs: int, filters: int, groups: int) -> dict[str, nn.Module]:
        padding = self.kernel // 2 if self.padding is None else self.padding
        layer = nn.Conv2d(
            inputs, filters, self.kernel, self.stride, padding, groups=groups, bias=self.bias
        )
        first: dict[str, nn.Module | None] = {"layer": layer, "norm": self._normalisation(filters)}
        last = {"activation": self.activation and self.activation(), "pool": self.pool}
        if self.activation is nn.ReLU and isinstance(self.pool, nn.MaxPool2d):
            last = dict(reversed(last.items()))
        return {name: part for name, part in (first | last).items() if part is not None}

    def _normalisation(self, filters: int) -> nn.Module | None:
        if self.norm == "group":
            return nn.GroupNorm(self.norm_groups or self.groups, filters)
        return nn.BatchNorm2d(filters) if self.norm == "batch" else None


@dataclass(frozen=True)
class Depthwise(Conv):
    """Convolution with one filter for each input channel."""

    filters: int = field(default=0, init=False)

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        return self._convolved(shape[0], shape[0], shape[0])

    def widened(self, of: int) -> "Depthwise":
        return self


@dataclass(frozen=True)
class Dense(Block):
    """Dense layer, activation. With `groups`, the layer consists of that many independent ones."""

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
    """The last layer, `head`, which computes scores. With `groups` ("decoupled"), each group of
    scores depends on its group of units alone; `order` lists the scores group by group (None: in
    their own order)."""

    outputs: int
    groups: int = 1
    order: tuple[int, ...] | None = None
    name: ClassVar[str] = "head"


class PassOn(Head):
    """A head that passes on the scores of a user's own module, which do not come from a dense
    layer; it is not trained."""


class GroupedLinear(nn.Module):
    """A dense layer in independent groups: each computes its outputs from its slice of the inputs,
    as in a grouped convolution.

    Maps (B, inputs) to (B, outputs), both with one group of equal size after the other. `weight` is
    (outputs, inputs / groups), its rows group by group. `order`: the output that each row computes;
    None: in order. Raises ValueError if a width is no multiple of `groups`.
    """

    def __init__(
        self, in_features: int, out_features: int, groups: int, order: tuple[int, ...] | None = None
    ) -> None:
        super().__init__()
        rows = tuple(range(out_features))
        # the row of each output; None: all in order
        self.rows = None if order is None or order == rows else sorted(rows, key=order.__getitem__)
        if in_features % groups or out_features % groups:
            raise ValueError(
                f"{in_features} inputs and {out_features} units cannot be split into {groups} "
                f"groups"
            )
        self.in_features, self.out_features, self.groups = in_features, out_features, groups
        self.weight = nn.Parameter(torch.empty(out_features, in_features // groups))
        self.bias = nn.Parameter(torch.empty(out_features))

    def forward(self, features: Tensor) -> Tensor:
        # (groups, B, inputs / groups)
        slices = features.unflatten(1, (self.groups, -1)).transpose(0, 1)
        products = slices @ self.weight.unflatten(0, (self.groups, -1)).transpose(1, 2)
        outputs = products.transpose(0, 1).flatten(1) + self.bias
        return (
            outputs
            if self.rows is None
            else outputs.index_select(1, torch.tensor(self.rows, device=outputs.device))
        )


Weighted = nn.Conv2d | nn.Linear | GroupedLinear  # layers that multiply by a weight


def linear(
    inputs: int, outputs: int, groups: int = 1, order: tuple[int, ...] | None = None
) -> nn.Linear | GroupedLinear:
    """Return a dense layer; torch's own for one group."""
    return (
        nn.Linear(inputs, outputs) if groups == 1 else GroupedLinear(inputs, outputs, groups, order)
    )


def multiple(units: float, of: int = 1) -> int:
    """Return the nearest multiple of `of`, but at least `of`: a width that can be split into
    groups."""
    return max(1, round(units / of)) * of
