"""A pass over a recorded step that multiplies scalars with each other before a whole tensor is
multiplied by them.

A penalty such as mu / 2 ||w - r||^2 is a product of scalars and one tensor. Autograd multiplies the
tensor by each scalar in turn, and expands scalars to the tensor's size: nine passes over all
weights, where three are enough.
"""

from dataclasses import dataclass

import torch
from torch import fx

from fedrepro.training.compiled_step.fx_passes import (
    arguments,
    base_of_view,
    eliminate_dead_code,
    mutated_inputs,
    value,
)

aten = torch.ops.aten
PRODUCTS = (aten.mul.Tensor, aten.mul.Scalar)

Number = fx.Node | float


def hoist_scalars(recording: fx.GraphModule) -> None:
    """Multiply scalars with each other first, scale a sum instead of its terms, and fuse a product
    with the addition that follows it (`addcmul`). Tensors that are changed in place are left
    alone."""
    scalars = _ScalarPass(recording.graph, mutated_inputs(recording))
    for node in list(recording.graph.nodes):
        if (
            node.target is aten.pow.Tensor_Scalar
            and node.args[1] == 1
            and base_of_view(node.args[0]) not in scalars.changed
        ):
            node.replace_all_uses_with(node.args[0])
        elif node.target in PRODUCTS:
            scalars.product(node)
        elif node.target is aten.sum.default and not node.kwargs:
            scalars.sum(node)
        elif node.target is aten.add.Tensor and not node.kwargs:
            scalars.addition(node)
    eliminate_dead_code(recording)


@dataclass(frozen=True)
class _ScalarPass:
    graph: fx.Graph
    changed: set[fx.Node]  # tensors that are changed in place

    def product(self, node: fx.Node) -> None:
        """Rewrite (x a) b as x (a b), and for tensors (x a) y as (x y) a; expand a product of two
        scalars after it."""
        one, other = map(_as_number, arguments(node))
        if one is not None and other is not None:
            if value(node).dim():
                shape = list(value(node).shape)
                self._replace(node, aten.expand.default, (self._times(node, one, other), shape))
        elif (scaled := self._scaled_tensor(node)) is not None:
            tensor, number = scaled
            if (inner := self._scaled_for_only(node, tensor)) is not None:
                tensor, number = inner[0], self._times(node, inner[1], number)
            if (tensor, number) != node.args:
                self._replace(node, aten.mul.Tensor, (tensor, number))
        elif one is None and other is None:
            for factor, tensor in (arguments(node), arguments(node)[::-1]):
                if (
                    inner := self._scaled_for_only(node, factor)
                ) is not None and _same_shape_and_type(inner[0], tensor):
                    product = self._call(node, aten.mul.Tensor, (inner[0], tensor), like=node)
                    whole = self._replace(node, aten.mul.Tensor, (product, inner[1]))
                    self.product(product)
                    self.product(whole)
                    return

    def sum(self, node: fx.Node) -> None:
        """Rewrite sum(x a) as sum(x) a."""
        if (scaled := self._scaled_for_only(node, arguments(node)[0])) is not None:
            total = self._call(node, aten.sum.default, scaled[:1], like=node)
            self._replace(node, aten.mul.Tensor, (total, scaled[1]))

    def addition(self, node: fx.Node) -> None:
        """Compute x a + y in one pass."""
        for product, term in (arguments(node), arguments(node)[::-1]):
            scaled = self._scaled_for_only(node, product)
            if (
                scaled is None
                or not isinstance(term, fx.Node)
                or not _same_shape_and_type(term, node)
            ):
                continue
            tensor, number = scaled
            if isinstance(number, fx.Node):
                self._replace(node, aten.addcmul.default, (term, tensor, number))
            else:
                self._replace(node, aten.add.Tensor, (term, tensor), {"alpha": number})
            return

    def _scaled_for_only(self, user: fx.Node, factor: Number) -> tuple[fx.Node, Number] | None:
        """Return `_scaled_tensor` of a factor that only `user` uses, else None."""
        return (
            self._scaled_tensor(factor)
            if isinstance(factor, fx.Node) and list(factor.users) == [user]
            else None
        )

    def _scaled_tensor(self, node: fx.Node) -> tuple[fx.Node, Number] | None:
        """Return tensor and scalar of a product of both, if the tensor has the product's type and
        shape and neither changes."""
        if node.target not in PRODUCTS or not value(node).dtype.is_floating_point:
            return None
        for tensor, number in (arguments(node), arguments(node)[::-1]):
            if (
                (single := _as_number(number)) is not None
                and isinstance(tensor, fx.Node)
                and _as_number(tensor) is None
            ):
                factors = [factor for factor in (tensor, single) if isinstance(factor, fx.Node)]
                unchanged = self.changed.isdisjoint(map(base_of_view, factors))
                return (
                    (tensor, single) if unchanged and _same_shape_and_type(tensor, node) else None
                )
        return None

    def _times(self, before: fx.Node, one: Number, other: Number) -> Number:
        """Return the product of two scalars."""
        if isinstance(one, fx.Node):
            return self._call(before, aten.mul.Tensor, (one, other), like=one)
        if isinstance(other, fx.Node):
            return self._call(before, aten.mul.Tensor, (other, one), like=other)
        return other * one

    def _call(
        self, before: fx.Node, target, args: tuple, kwargs: dict | None = None, *, like: fx.Node
    ) -> fx.Node:
        with self.graph.inserting_before(before):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = like.meta
        return node

    def _replace(self, node: fx.Node, target, args: tuple, kwargs: dict | None = None) -> fx.Node:
        """Replace a node by a call; erases it and the factors that only it used."""
        new = self._call(node, target, args, kwargs, like=node)
        node.replace_all_uses_with(new)
        unused = [node]
        while unused:
            erased = unused.pop()
            inputs = erased.all_input_nodes
            self.graph.erase_node(erased)
            unused += [
                input
                for input in inputs
                if not input.users and input.target in (*PRODUCTS, aten.expand.default)
            ]
        return new


def _same_shape_and_type(one: fx.Node, other: fx.Node) -> bool:
    """Return whether two tensors have the same shape and type."""
    return value(one).shape == value(other).shape and value(one).dtype == value(other).dtype


def _as_number(factor: Number) -> Number | None:
    """Return the scalar that a factor is, or is an expansion of; None for other tensors."""
    if not isinstance(factor, fx.Node):
        return factor
    node = arguments(factor)[0] if factor.target is aten.expand.default else factor
    return node if value(node).dim() == 0 else None
