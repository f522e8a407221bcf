"""A recorded step as one CUDA graph, which the host launches once in place of some sixty
operations.

A graph works on the memory that it was captured with. So the tensors of each call are copied into
those of the first call, and those that the step changes are copied back.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

copy_ = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]  (not in the stubs)
# calls before the capture, in which libraries choose their algorithms and allocate their workspace
WARM_UP = 3


class CudaGraphStep:
    """A `function` of `tensors` as a graph. It reads those at the places `read` and changes those
    at `changed`.

    The next call overwrites the tensors that a call returned. Captures with one `pool` share memory
    for temporary tensors."""

    def __init__(
        self,
        function: Callable,
        tensors: Sequence[Tensor],
        read: list[int],
        changed: list[int],
        pool: Any = None,
    ) -> None:
        self.function = function  # keeps the constants in memory, which the graph reads
        self.inputs = [
            tensor.clone() if place in read else tensor for place, tensor in enumerate(tensors)
        ]
        self.read, self.changed = (
            _group_by_type(self.inputs, read),
            _group_by_type(self.inputs, changed),
        )
        self.replay, self.outputs = capture(lambda: function(*self.inputs), pool)

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        for places in self.read:
            copy_([self.inputs[place] for place in places], [tensors[place] for place in places])
        self.replay()
        for places in self.changed:
            copy_([tensors[place] for place in places], [self.inputs[place] for place in places])
        return self.outputs


def _group_by_type(tensors: Sequence[Tensor], places: list[int]) -> list[list[int]]:
    """Group places by the type of their tensors: tensors of one type are copied by one call."""
    types = dict.fromkeys(tensors[place].dtype for place in places)
    return [[place for place in places if tensors[place].dtype == kind] for kind in types]


@functools.cache
def _capture_stream(device: int) -> torch.cuda.Stream:
    """Return one stream for all captures, since libraries keep a workspace for each stream that
    they see."""
    return torch.cuda.Stream(device)


def capture(
    work: Callable[[], tuple[Tensor, ...]], pool: Any
) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
    """Capture `work`: returns a function that repeats it, and the tensors that then contain its
    results."""
    stream = _capture_stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        outputs = work()
    return graph.replay, outputs
