"""Single numbers in a recorded step, multiplied with each other before a whole tensor is multiplied by them.

A penalty such as mu / 2 ||w - r||^2 is a product of single numbers and one tensor. Autograd multiplies that by each number in
turn, and stores a number as often as the tensor has places where it is spread over it first: nine passes over all weights, of
which three are enough.
"""

from dataclasses import dataclass

import torch
from torch import fx

from fedrepro.training.compiled_step.fx_passes import base_of_view, eliminate_dead_code, mutated_inputs, value

aten = torch.ops.aten
PRODUCTS = (aten.mul.Tensor, aten.mul.Scalar)

Number = fx.Node | float


def hoist_scalars(recording: fx.GraphModule) -> None:
    """Multiply numbers together first, multiply a sum in place of its terms, and make one operation, `addcmul`, of a product
    and the addition that follows it. What is changed in place stays as it is."""
    factors = _ScalarPass(recording.graph, mutated_inputs(recording))
    for node in list(recording.graph.nodes):
        if node.target is aten.pow.Tensor_Scalar and node.args[1] == 1 and base_of_view(node.args[0]) not in factors.changed:
            node.replace_all_uses_with(node.args[0])
        elif node.target in PRODUCTS:
            factors.product(node)
        elif node.target is aten.sum.default and not node.kwargs:
            factors.sum(node)
        elif node.target is aten.add.Tensor and not node.kwargs:
            factors.addition(node)
    eliminate_dead_code(recording)


@dataclass(frozen=True)
class _ScalarPass:
    graph: fx.Graph
    changed: set[fx.Node]  # tensors

    def product(self, node: fx.Node) -> None:
        """(x a) b as x (a b) and, of whole tensors, (x a) y as (x y) a. A product of two numbers is spread after it."""
        one, other = map(_as_number, node.args)
        if one is not None and other is not None:
            if value(node).dim():
                shape = list(value(node).shape)
                self._replace(node, aten.expand.default, (self._times(node, one, other), shape))
        elif (found := self._scaled_tensor(node)) is not None:
            tensor, number = found
            if (inner := self._scaled_for_only(node, tensor)) is not None:
                tensor, number = inner[0], self._times(node, inner[1], number)
            if (tensor, number) != node.args:
                self._replace(node, aten.mul.Tensor, (tensor, number))
        elif one is None and other is None:
            for scaled, tensor in (node.args, node.args[::-1]):
                if (inner := self._scaled_for_only(node, scaled)) is not None and _same_shape_and_type(inner[0], tensor):
                    product = self._call(node, aten.mul.Tensor, (inner[0], tensor), like=node)
                    whole = self._replace(node, aten.mul.Tensor, (product, inner[1]))
                    self.product(product)
                    self.product(whole)
                    return

    def sum(self, node: fx.Node) -> None:
        """sum(x a) as sum(x) a."""
        if (found := self._scaled_for_only(node, node.args[0])) is not None:
            added = self._call(node, aten.sum.default, found[:1], like=node)
            self._replace(node, aten.mul.Tensor, (added, found[1]))

    def addition(self, node: fx.Node) -> None:
        """x a + y in one pass."""
        for product, added in (node.args, node.args[::-1]):
            if (
                (found := self._scaled_for_only(node, product)) is not None
                and isinstance(added, fx.Node)
                and _same_shape_and_type(added, node)
            ):
                if isinstance(found[1], fx.Node):
                    self._replace(node, aten.addcmul.default, (added, *found))
                else:
                    self._replace(node, aten.add.Tensor, (added, found[0]), {"alpha": found[1]})
                return

    def _scaled_for_only(self, user: fx.Node, factor: Number) -> tuple[fx.Node, Number] | None:
        """As `_scaled`, of what nobody else uses."""
        return self._scaled_tensor(factor) if isinstance(factor, fx.Node) and list(factor.users) == [user] else None

    def _scaled_tensor(self, node: fx.Node) -> tuple[fx.Node, Number] | None:
        """Of the product of a whole tensor, of the same type and shape, and a number, the two; None where either changes."""
        if node.target not in PRODUCTS or not value(node).dtype.is_floating_point:
            return None
        for tensor, number in (node.args, node.args[::-1]):
            if (single := _as_number(number)) is not None and isinstance(tensor, fx.Node) and _as_number(tensor) is None:
                still = self.changed.isdisjoint(base_of_view(given) for given in (tensor, single) if isinstance(given, fx.Node))
                return (tensor, single) if still and _same_shape_and_type(tensor, node) else None
        return None

    def _times(self, before: fx.Node, one: Number, other: Number) -> Number:
        """The product of two numbers."""
        if not isinstance(one, fx.Node):
            one, other = other, one
        return self._call(before, aten.mul.Tensor, (one, other), like=one) if isinstance(one, fx.Node) else one * other

    def _call(self, before: fx.Node, target, args: tuple, kwargs: dict | None = None, *, like: fx.Node) -> fx.Node:
        with self.graph.inserting_before(before):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = like.meta
        return node

    def _replace(self, node: fx.Node, target, args: tuple, kwargs: dict | None = None) -> fx.Node:
        """Erases the node and what was made for it alone, so that they are users of nothing."""
        new = self._call(node, target, args, kwargs, like=node)
        node.replace_all_uses_with(new)
        unused = [node]
        while unused:
            inputs = (last := unused.pop()).all_input_nodes
            self.graph.erase_node(last)
            unused += [given for given in inputs if not given.users and given.target in (*PRODUCTS, aten.expand.default)]
        return new


def _same_shape_and_type(one: fx.Node, other: fx.Node) -> bool:
    """Whether two tensors have the same shape and type."""
    return value(one).shape == value(other).shape and value(one).dtype == value(other).dtype


def _as_number(factor: Number) -> Number | None:
    """The single number that a factor is, or is an expansion of."""
    if not isinstance(factor, fx.Node):
        return factor
    if factor.target is aten.expand.default:
        factor = factor.args[0]
    return factor if value(factor).dim() == 0 else None
