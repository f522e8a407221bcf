"""A recorded step as one CUDA graph: the host starts one thing where it started some sixty.

A graph works on the memory that it was captured with. So the tensors of each call are copied to where those of the first call
were held, and what the step changes among them is copied back.
"""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM_UP = 3  # calls before the capture, in which libraries choose their algorithms and take their workspace


class CudaGraphStep:
    """`function` of `tensors`, of which it reads those at the places `read` and changes those at `changed`. What a call returns
    is overwritten by the next. Captures with the same `pool` share their memory for what lives within one call."""

    def __init__(
        self, function: Callable, tensors: Sequence[Tensor], read: list[int], changed: list[int], pool: object = None
    ) -> None:
        self.function = function  # the graph reads its constants where they lie
        self.inputs = [tensor.clone() if place in read else tensor for place, tensor in enumerate(tensors)]
        self.read, self.changed = _group_by_type(self.inputs, read), _group_by_type(self.inputs, changed)
        self.replay, self.outputs = capture(lambda: function(*self.inputs), pool)

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        for places in self.read:
            torch._foreach_copy_([self.inputs[place] for place in places], [tensors[place] for place in places])
        self.replay()
        for places in self.changed:
            torch._foreach_copy_([tensors[place] for place in places], [self.inputs[place] for place in places])
        return self.outputs


def _group_by_type(tensors: Sequence[Tensor], places: list[int]) -> list[list[int]]:
    """Places of tensors of one type together: those are copied at once."""
    types = dict.fromkeys(tensors[place].dtype for place in places)
    return [[place for place in places if tensors[place].dtype == kind] for kind in types]


@functools.cache
def _capture_stream(device: int) -> torch.cuda.Stream:
    """One for all captures: libraries keep a workspace for each stream that they ever saw."""
    return torch.cuda.Stream(device)


def capture(work: Callable[[], tuple[Tensor, ...]], pool: object) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
    """What does `work` again, and the tensors that it then writes its results to."""
    aside = _capture_stream(torch.cuda.current_device())
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        outputs = work()
    return graph.replay, outputs
