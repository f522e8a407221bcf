"""A training step as a flat list of tensor operations, and passes that make it faster, for any
network and method.

`remove_no_ops` drops operations without effect; `fold_constants` computes once what is the same in
every step; `fuse_sgd_step` takes the step of plain SGD inside the recording, without storing
gradients that are products; `choose_matmul_kernels` computes large matrix products in the fastest
way for the processor; `scalar_pass.py` saves passes over whole tensors. Results stay the same
except for rounding. The passes only edit the list: call `recompile` once, after the last.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Iterable
from operator import neg
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import CodeGen

LARGE_WEIGHT = 2**15  # numbers in a dense layer's weight above which it competes for the cache
LONG_PRODUCT = 2**20  # multiply-adds of a product above which oneDNN's slower call pays off
MKL_AUTO = 2  # MKL_CBWR_AUTO in MKL's headers
aten = torch.ops.aten
# operation that uses only the shape of its first argument -> the value that fills its result
FILL_VALUES = {
    aten.ones_like.default: 1,
    aten.zeros_like.default: 0,
    aten.new_ones.default: 1,
    aten.new_zeros.default: 0,
}
ARANGES = (aten.arange.default, aten.arange.start)  # they have no tensor among their arguments
ACCUMULATING = {
    aten.mm.default: aten.addmm_.default,
    aten.bmm.default: aten.baddbmm_.default,
}  # product -> product added to a tensor
MAX_CONSTANT = 2**16  # numbers in a stored constant
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.expand.default)


def record(function: Callable[..., tuple[Tensor, ...]], tensors: list[Tensor]) -> fx.GraphModule:
    """Record `function` for tensors of these shapes. The recording has a new first argument, a
    number `rate`, still unused."""
    # one mode for all fake tensors saves a third of the time
    with tracing(TracingContext(FakeTensorMode())):
        # clones: a norm layer changes its statistics
        recording = make_fx(function)(*(tensor.clone() for tensor in tensors))
    recording.graph.set_codegen(CodeGen())
    with recording.graph.inserting_before(next(iter(recording.graph.nodes))):
        recording.graph.placeholder("rate")
    return recording


def remove_no_ops(recording: fx.GraphModule) -> None:
    """Remove views that keep the shape, which `vmap` leaves, products with 1, and pairs of
    transposes."""
    for node in recording.graph.find_nodes(op="call_function", target=aten.mul.Scalar, sort=False):
        if node.args[1] == 1:
            node.replace_all_uses_with(node.args[0])
    for node in list(recording.graph.nodes):
        if node.target in VIEWS and value(node).shape == value(node.args[0]).shape:
            node.replace_all_uses_with(node.args[0])
        elif (twice := _transposed(node)) is not None and (first := _transposed(twice)) is not None:
            node.replace_all_uses_with(first)
    eliminate_dead_code(recording)


def fold_constants(recording: fx.GraphModule) -> None:
    """Compute once what depends on shapes alone, such as the gradient of a mean."""
    constants: dict[fx.Node, Tensor] = {}
    changing = with_ancestors(filter(is_mutation, recording.graph.nodes))
    for node in recording.graph.nodes:
        if node.op != "call_function" or node in changing or _is_random(node):
            continue
        like = value(node)
        if isinstance(like, Tensor) and like.numel() > MAX_CONSTANT:
            continue
        if node.target in FILL_VALUES:
            constants[node] = torch.full(
                like.shape, FILL_VALUES[node.target], dtype=like.dtype, device=like.device
            )
        elif (node.all_input_nodes or node.target in ARANGES) and constants.keys() >= set(
            node.all_input_nodes
        ):
            args, kwargs = (
                fx.map_arg(node.args, constants.get),
                fx.map_arg(node.kwargs, constants.get),
            )
            constants[node] = node.target(*args, **kwargs)
    for node, constant in constants.items():
        if any(user not in constants for user in node.users):
            recording.register_buffer(f"constant_{node.name}", constant)
            with recording.graph.inserting_before(node):
                node.replace_all_uses_with(recording.graph.get_attr(f"constant_{node.name}"))
    eliminate_dead_code(recording)


def fuse_sgd_step(recording: fx.GraphModule, gradients: dict[int, int]) -> None:
    """Take the step of plain SGD inside the recording; gradients that are products are never
    stored.

    `gradients` maps the place of an output to the place of the input whose gradient it is; these
    outputs become None."""
    rate, *places = recording.graph.find_nodes(op="placeholder")
    output = recording.graph.output_node()
    outputs = list(arguments(output)[0])
    updated = {places[tensor] for tensor in gradients.values()}
    with recording.graph.inserting_before(output):
        step = recording.graph.call_function(neg, (rate,))
        for place, tensor in gradients.items():
            weight, gradient = places[tensor], outputs[place]
            is_product = gradient.target in ACCUMULATING and list(gradient.users) == [output]
            if is_product and updated.isdisjoint(map(base_of_view, gradient.args)):
                recording.graph.call_function(
                    ACCUMULATING[gradient.target], (weight, *gradient.args), {"alpha": step}
                )
            else:
                recording.graph.call_function(aten.add_.Tensor, (weight, gradient), {"alpha": step})
            outputs[place] = None
    output.args = (tuple(outputs),)
    eliminate_dead_code(recording)


def choose_matmul_kernels(recording: fx.GraphModule, tensors: list[Tensor]) -> None:
    """Compute large products by the library, or with the order of factors, that is fastest on this
    processor."""
    if prefers_onednn():
        for target in (aten.mm.default, aten.addmm.default):
            for node in recording.graph.find_nodes(op="call_function", target=target):
                if (
                    not node.kwargs
                    and value(node).dtype == torch.float32
                    and _multiply_adds(node) >= LONG_PRODUCT
                ):
                    _use_onednn(recording.graph, node)
    else:
        places = recording.graph.find_nodes(op="placeholder")[1:]
        pairs = zip(places, tensors, strict=True)
        large = {
            place for place, tensor in pairs if tensor.dim() == 2 and tensor.numel() >= LARGE_WEIGHT
        }
        for node in recording.graph.find_nodes(op="call_function", target=aten.addmm.default):
            if _transposed(arguments(node)[2]) in large and not node.kwargs:
                _put_weights_left(recording.graph, node)
    eliminate_dead_code(recording)


@functools.cache
def prefers_onednn() -> bool:
    """Return whether oneDNN computes large matrix products instead of MKL, torch's default.

    MKL takes twice as long on processors for which it has no special code, since it does not use
    their widest instructions. The operator is one that torch's compiler calls."""
    return mkl_branch() == MKL_AUTO and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def mkl_branch() -> int | None:
    """Return the instruction set that MKL uses on this processor (12: AVX-512); `MKL_AUTO` if it
    has no special code; None without MKL. MKL's documentation calls the function
    `mkl_cbwr_get_auto_branch`; torch links it under another name."""
    library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    function = (
        getattr(ctypes.CDLL(str(library)), "mkl_serv_cbwr_get_auto_branch", None)
        if library.exists()
        else None
    )
    return function() if function else None


def used_inputs(recording: fx.GraphModule) -> list[int]:
    """Return the places of the tensors that a recording uses."""
    return [
        place
        for place, node in enumerate(recording.graph.find_nodes(op="placeholder")[1:])
        if node.users
    ]


def _multiply_adds(node: fx.Node) -> int:
    """Count the multiply-adds of a matrix product; its last two arguments are the factors."""
    return math.prod(value(arguments(node)[-2]).shape) * value(node).shape[1]


def _use_onednn(graph: fx.Graph, node: fx.Node) -> None:
    """Compute (bias +) x W by oneDNN, which takes W transposed, like a dense layer's weight."""
    *bias, inputs, factor = arguments(node)
    with graph.inserting_before(node):
        weights = _transposed(factor) or graph.call_function(aten.t.default, (factor,))
        # "none": no activation function
        args = (inputs, weights, bias[0] if bias else None, "none", [], "")
        node.replace_all_uses_with(
            graph.call_function(torch.ops.mkldnn._linear_pointwise.default, args)
        )


def _put_weights_left(graph: fx.Graph, node: fx.Node) -> None:
    """Compute bias + x W^T as (bias + W x^T)^T, which the library does twice as fast for 10
    images."""
    bias, inputs, transposed = arguments(node)
    with graph.inserting_before(node):
        column = graph.call_function(aten.unsqueeze.default, (bias, 1))
        across = graph.call_function(aten.t.default, (inputs,))
        product = graph.call_function(aten.addmm.default, (column, transposed.args[0], across))
        back = graph.call_function(aten.t.default, (product,))
    node.replace_all_uses_with(back)


def _transposed(node: fx.Node) -> fx.Node | None:
    """Return the tensor of which a node is the transpose; None if it is no transpose."""
    if node.target is aten.t.default or (
        node.target is aten.transpose.int and node.args[1:] == (1, 2)
    ):
        return arguments(node)[0]
    return None


def base_of_view(node: fx.Node) -> fx.Node:
    """Return the tensor that a node is a view of, through any number of views; the node itself if
    it is no view."""
    while getattr(node.target, "is_view", False):
        node = arguments(node)[0]
    return node


def arguments(node: fx.Node) -> tuple[Any, ...]:
    """Return a node's positional arguments; their static type in torch is a union of almost
    everything."""
    return node.args


def value(node: fx.Node) -> Tensor:
    """Return a fake tensor with the shape and type of a node's result."""
    return node.meta["val"]


def is_mutation(node: fx.Node) -> bool:
    """Return whether an operation changes one of its arguments in place."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def mutated_inputs(recording: fx.GraphModule) -> set[fx.Node]:
    """Return the tensors that some operation changes in place; for a view, its base."""
    changed = set()
    for node in filter(is_mutation, recording.graph.nodes):
        parameters = node.target._schema.arguments
        named = (
            dict(zip((parameter.name for parameter in parameters), node.args, strict=False))
            | node.kwargs
        )
        for parameter in parameters:
            if parameter.is_write:
                argument = named[parameter.name]
                changed |= set(
                    map(
                        base_of_view, argument if isinstance(argument, list | tuple) else [argument]
                    )
                )
    return changed


def _is_random(node: fx.Node) -> bool:
    """Return whether an operation draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def with_ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Return these nodes and all nodes that they are computed from."""
    reached, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += node.all_input_nodes
    return reached


def eliminate_dead_code(recording: fx.GraphModule) -> None:
    """Erase operations whose result is unused, except those that change a tensor."""
    for node in reversed(recording.graph.nodes):
        if not node.users and node.op == "call_function" and not is_mutation(node):
            recording.graph.erase_node(node)
    recording.graph.lint()
