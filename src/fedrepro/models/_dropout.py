"""Dropout inside modules of any kind, by factors that are drawn before a step.

torch draws dropout from its global generator, and under `vmap` in another order. Here the factors
of a step come from outside: while a module computes, `torch.nn.functional`'s dropout functions and
its attention use them, in the order of their calls. So `nn.Dropout` (also 1d, 2d, 3d), `F.dropout`
and `nn.MultiheadAttention` need no change.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

# function -> axes of a map that is dropped as a whole
MAPS = {"dropout": None, "dropout1d": 1, "dropout2d": 2, "dropout3d": 3}
ATTENTION = "scaled_dot_product_attention"


class Call(NamedTuple):
    """A call of dropout in training: the shape of its factors, and the probability of 0."""

    shape: tuple[int, ...]
    rate: float


@contextmanager
def recorded(calls: list[Call]) -> Iterator[None]:
    """Append to `calls` the calls of dropout within the context, which drops nothing."""

    def skip(inputs: Tensor, call: Call) -> Tensor:
        calls.append(call)
        return inputs

    with _replaced(skip):
        yield


@contextmanager
def multiplied(factors: Iterable[Tensor]) -> Iterator[None]:
    """Use the factors in turn for the calls of dropout within the context; without any, drop
    nothing."""
    remaining = iter(factors)
    with _replaced(
        lambda inputs, call: (
            inputs if (factor := next(remaining, None)) is None else inputs * factor
        )
    ):
        yield


@contextmanager
def _replaced(drop: Callable[[Tensor, Call], Tensor]) -> Iterator[None]:
    originals = {name: getattr(F, name) for name in (*MAPS, ATTENTION)}
    for name, axes in MAPS.items():
        setattr(F, name, _dropout(drop, axes))
    setattr(F, ATTENTION, _attention(drop, originals[ATTENTION]))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(F, name, original)


def _dropout(drop: Callable[[Tensor, Call], Tensor], axes: int | None) -> Callable:
    def dropout(
        input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return input
        kept = input.dim() if axes is None else input.dim() - axes
        return drop(input, Call((*input.shape[:kept], *[1] * (input.dim() - kept)), p))

    return dropout


def _attention(drop: Callable[[Tensor, Call], Tensor], original: Callable) -> Callable:
    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **options: Any,
    ) -> Tensor:
        if dropout_p == 0:
            return original(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options)
        scores = (
            query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
        )
        if is_causal:
            attn_mask = torch.ones_like(scores, dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = (
                scores.masked_fill(~attn_mask, -torch.inf)
                if attn_mask.dtype == torch.bool
                else scores + attn_mask
            )
        weights = scores.softmax(-1)
        return drop(weights, Call(tuple(weights.shape), dropout_p)) @ value

    return attention
