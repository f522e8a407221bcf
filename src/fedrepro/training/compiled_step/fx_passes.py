"""A step of training as a flat list of tensor operations, and how it is made shorter.

Nothing here knows of a network or a method. `shorten` drops operations that do nothing; `fold` keeps what is the same in every
step; `descend` takes the step of plain SGD inside the recording, without storing slopes that are products; `multiply` has large
matrix products on a processor computed as it does them fastest; `factors.py` spares passes over whole tensors. The numbers stay
the same but for rounding. All of them only edit the list: `recompile` makes it a function again, once, after the last.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Iterable
from operator import neg
from pathlib import Path

import torch
from torch import Tensor, fx
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

LARGE_WEIGHT = 2**15  # weights of a dense layer above which the cache does not hold them beside everything else
LONG_PRODUCT = 2**20  # multiply-adds of a product above which oneDNN's longer call pays
MKL_AUTO = 2  # MKL_CBWR_AUTO in MKL's headers
aten = torch.ops.aten
FILL_VALUES = {  # operations that only take a tensor's shape from their first argument -> what they fill it with
    aten.ones_like.default: 1,
    aten.zeros_like.default: 0,
    aten.new_ones.default: 1,
    aten.new_zeros.default: 0,
}
ARANGES = (aten.arange.default, aten.arange.start)  # they depend on nothing
ACCUMULATING = {
    aten.mm.default: aten.addmm_.default,
    aten.bmm.default: aten.baddbmm_.default,
}  # product -> added to what is there
MAX_CONSTANT = 2**16  # numbers in a constant that is kept
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.expand.default)


def record(function: Callable[..., tuple[Tensor, ...]], tensors: list[Tensor]) -> fx.GraphModule:
    """`function` at tensors of these shapes. The recording takes one argument more, first: a number `rate`, not used yet."""
    with tracing(TracingContext(FakeTensorMode())):  # for all stand-ins; else each has its own, a third of the time
        recording = make_fx(function)(*(tensor.clone() for tensor in tensors))  # clones: a norm layer changes its statistics
    recording.graph.set_codegen(fx.graph.CodeGen())
    with recording.graph.inserting_before(next(iter(recording.graph.nodes))):
        recording.graph.placeholder("rate")
    return recording


def remove_no_ops(recording: fx.GraphModule) -> None:
    """Drop views of a shape onto itself, as `vmap` leaves them, products with 1, and pairs of transposes."""
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
    """Compute once what depends on shapes alone, such as the slope of a mean."""
    known: dict[fx.Node, Tensor] = {}
    changing = with_ancestors(filter(is_mutation, recording.graph.nodes))
    for node in recording.graph.nodes:
        if node.op != "call_function" or node in changing or _is_random(node):
            continue
        like = value(node)
        if isinstance(like, Tensor) and like.numel() > MAX_CONSTANT:
            continue
        if node.target in FILL_VALUES:
            known[node] = torch.full(like.shape, FILL_VALUES[node.target], dtype=like.dtype, device=like.device)
        elif (node.all_input_nodes or node.target in ARANGES) and known.keys() >= set(node.all_input_nodes):
            known[node] = node.target(*fx.map_arg(node.args, known.get), **fx.map_arg(node.kwargs, known.get))
    for node, constant in known.items():
        if any(user not in known for user in node.users):
            recording.register_buffer(f"constant_{node.name}", constant)
            with recording.graph.inserting_before(node):
                node.replace_all_uses_with(recording.graph.get_attr(f"constant_{node.name}"))
    eliminate_dead_code(recording)


def fuse_sgd_step(recording: fx.GraphModule, slopes: dict[int, int]) -> None:
    """The recording itself takes the step of plain SGD; a slope that is a product is never stored. `slopes`: which output is
    the slope of which input; None is put out."""
    rate, *places = recording.graph.find_nodes(op="placeholder")
    output = recording.graph.output_node()
    outputs = list(output.args[0])
    stepping = {places[tensor] for tensor in slopes.values()}
    with recording.graph.inserting_before(output):
        step = recording.graph.call_function(neg, (rate,))
        for place, tensor in slopes.items():
            weight, slope = places[tensor], outputs[place]
            product = (
                slope.target in ACCUMULATING
                and list(slope.users) == [output]
                and stepping.isdisjoint(map(base_of_view, slope.args))
            )
            change, values = (ACCUMULATING[slope.target], slope.args) if product else (aten.add_.Tensor, (slope,))
            recording.graph.call_function(change, (weight, *values), {"alpha": step})
            outputs[place] = None
    output.args = (tuple(outputs),)
    eliminate_dead_code(recording)


def choose_matmul_kernels(recording: fx.GraphModule, tensors: list[Tensor]) -> None:
    """Large products by the library, or with the factors in the order, in which the processor is fast."""
    if prefers_onednn():
        for target in (aten.mm.default, aten.addmm.default):
            for node in recording.graph.find_nodes(op="call_function", target=target):
                if not node.kwargs and value(node).dtype == torch.float32 and _multiply_adds(node) >= LONG_PRODUCT:
                    _use_onednn(recording.graph, node)
    else:
        places = recording.graph.find_nodes(op="placeholder")[1:]
        large = {
            place for place, tensor in zip(places, tensors, strict=True) if tensor.dim() == 2 and tensor.numel() >= LARGE_WEIGHT
        }
        for node in recording.graph.find_nodes(op="call_function", target=aten.addmm.default):
            if _transposed(node.args[2]) in large and not node.kwargs:
                _put_weights_left(recording.graph, node)
    eliminate_dead_code(recording)


@functools.cache
def prefers_onednn() -> bool:
    """Whether oneDNN computes large matrix products instead of MKL, torch's own choice. Where MKL has no code of its own for
    the processor, it leaves the widest instructions unused and takes twice as long. torch's compiler calls this operator."""
    return mkl_branch() == MKL_AUTO and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def mkl_branch() -> int | None:
    """The instruction set that MKL names for this processor (12: AVX-512), `MKL_AUTO` for one that it has no code for; None
    without MKL. In MKL's documentation the function is `mkl_cbwr_get_auto_branch`; torch links it under this name."""
    library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    function = getattr(ctypes.CDLL(str(library)), "mkl_serv_cbwr_get_auto_branch", None) if library.exists() else None
    return function() if function else None


def used_inputs(recording: fx.GraphModule) -> list[int]:
    """The places of the tensors that it uses."""
    return [place for place, node in enumerate(recording.graph.find_nodes(op="placeholder")[1:]) if node.users]


def _multiply_adds(node: fx.Node) -> int:
    """Of a matrix product, whose factors come last."""
    return math.prod(value(node.args[-2]).shape) * value(node).shape[1]


def _use_onednn(graph: fx.Graph, node: fx.Node) -> None:
    """(bias +) x W with W given transposed, as a dense layer has it."""
    *bias, inputs, factor = node.args
    with graph.inserting_before(node):
        weights = _transposed(factor) or graph.call_function(aten.t.default, (factor,))
        given = (inputs, weights, bias[0] if bias else None, "none", [], "")  # nothing is done to the product
        node.replace_all_uses_with(graph.call_function(torch.ops.mkldnn._linear_pointwise.default, given))


def _put_weights_left(graph: fx.Graph, node: fx.Node) -> None:
    """bias + x W^T as (bias + W x^T)^T: with 10 images the library multiplies twice as fast so."""
    bias, inputs, transposed = node.args
    with graph.inserting_before(node):
        column = graph.call_function(aten.unsqueeze.default, (bias, 1))
        across = graph.call_function(aten.t.default, (inputs,))
        product = graph.call_function(aten.addmm.default, (column, transposed.args[0], across))
        back = graph.call_function(aten.t.default, (product,))
    node.replace_all_uses_with(back)


def _transposed(node: fx.Node) -> fx.Node | None:
    """The tensor of which a node is the transpose."""
    if node.target is aten.t.default or (node.target is aten.transpose.int and node.args[1:] == (1, 2)):
        return node.args[0]
    return None


def base_of_view(node: fx.Node) -> fx.Node:
    """What a node is a view of, or itself."""
    while getattr(node.target, "is_view", False):
        node = node.args[0]
    return node


def value(node: fx.Node) -> Tensor:
    """A stand-in for what a node computes, with its shape."""
    return node.meta["val"]


def is_mutation(node: fx.Node) -> bool:
    """Whether it changes a tensor that it is given."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def mutated_inputs(recording: fx.GraphModule) -> set[fx.Node]:
    """The tensors, not views of them, that some operation changes in place."""
    found = set()
    for node in filter(is_mutation, recording.graph.nodes):
        arguments = node.target._schema.arguments
        named = dict(zip((argument.name for argument in arguments), node.args, strict=False)) | node.kwargs
        for argument in arguments:
            if argument.is_write:
                given = named[argument.name]
                found |= {base_of_view(one) for one in (given if isinstance(given, list | tuple) else [given])}
    return found


def _is_random(node: fx.Node) -> bool:
    """Whether it draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def with_ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """These nodes and all that they are computed from."""
    found, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def eliminate_dead_code(recording: fx.GraphModule) -> None:
    """Erase what nothing uses any more; operations that change a tensor are used by their change."""
    for node in reversed(recording.graph.nodes):
        if not node.users and node.op == "call_function" and not is_mutation(node):
            recording.graph.erase_node(node)
    recording.graph.lint()
