"""One step of local training: mini-batch SGD on a method's objective, recorded once for each kind of batch, then replayed.

On networks this small, the calls of modules and of autograd cost as much as the arithmetic; a recording has neither. On CUDA
the launches that are left may be captured as one graph.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, fx
from torch.func import grad_and_value, vmap
from torch.optim.sgd import sgd

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights
from fedrepro.config.params import RunConfig
from fedrepro.training.compiled_step import fx_passes
from fedrepro.training.compiled_step.cuda_graph import CudaGraphStep
from fedrepro.training.compiled_step.scalar_pass import hoist_scalars

MAX_RECORDINGS = 256  # recordings that are held at a time: a method whose networks grow has others in every round


class Step:
    """`stacked`: the weights and the batch have a leading axis, one entry per client; what was received has not. `captured`: as
    CUDA graphs. `plain`: nothing is recorded, so that a debugger or a print sees every operation. `recordings`: those of a run
    with the same network, method and kind of step; to record takes seconds, and what is recorded holds no weights."""

    def __init__(
        self,
        algorithm: FedAvg,
        config: RunConfig,
        stacked: bool = False,
        captured: bool = False,
        plain: bool = False,
        recordings: dict[tuple, Callable] | None = None,
    ) -> None:
        self.algorithm, self.config, self.stacked, self.captured, self.plain = algorithm, config, stacked, captured, plain
        simple = config.momentum == 0 and config.weight_decay == 0
        here = algorithm.net.head.weight.device.type == "cpu"
        # not on CUDA, where one fused call starts less, and not in a graph, which would fix the rate
        self.fuses_sgd = simple and here and not (captured or plain)
        self.recordings = {} if recordings is None or plain else recordings
        self.memory_pool = torch.cuda.graph_pool_handle() if captured else None

    def velocity(self, weights: Weights, trained: tuple[str, ...], kept: Weights | None = None) -> list[Tensor]:
        """Of the momentum, before the first step: what is `kept` of it, else zeros, or nothing where there is no momentum."""
        if not self.config.momentum:
            return []
        kept = kept or {}
        return [kept[name].clone() if name in kept else torch.zeros_like(weights[name]) for name in trained]

    @torch.no_grad()
    def __call__(
        self,
        weights: Weights,
        velocity: list[Tensor],
        received: Weights,
        batch: Batch,
        lr: float,
        trained: tuple[str, ...] | None = None,
    ) -> Tensor:
        """Changes the `trained` ones of `weights` (None: those that the network trains) and `velocity` in place. Returns the
        loss before the step, one number per client."""
        trained = trained or self.algorithm.trained
        inputs = Inputs(weights, received, batch)
        tensors = inputs.flat()
        key = (self.stacked, trained, inputs.names(), tuple(tensor.shape for tensor in tensors))
        if key not in self.recordings:
            if len(self.recordings) == MAX_RECORDINGS:
                del self.recordings[next(iter(self.recordings))]
            self.recordings[key] = self._record(trained, inputs, tensors)
        *slopes, loss = self.recordings[key](lr, *tensors)
        if not self.fuses_sgd:
            sgd(
                [weights[name] for name in trained],
                [_match_layout(slope, weights[name]) for name, slope in zip(trained, slopes, strict=True)],
                velocity or [None] * len(slopes),
                fused=True,
                lr=lr,
                momentum=self.config.momentum,
                nesterov=self.config.nesterov,
                weight_decay=self.config.weight_decay,
                dampening=0,
                maximize=False,
            )
        return loss.clone() if self.captured else loss

    def _record(self, trained: tuple[str, ...], like: "Inputs", tensors: list[Tensor]) -> Callable:
        """(lr, tensors) -> the slope of every trained tensor, or None where it has taken its step already, and the loss.
        Only here is the network in training mode: everywhere else norm layers use, and keep, their statistics."""
        shared = [like.is_received(place) for place in range(len(tensors))]

        def slopes(*tensors: Tensor) -> tuple[Tensor, ...]:
            state, received, batch = like.with_tensors(tensors)
            free = {name: state.pop(name) for name in trained}  # what is left are buffers, changed in place, and frozen weights
            found, loss = grad_and_value(self._loss)(free, state, received, batch)
            return *found.values(), loss

        if self.stacked:
            slopes = vmap(slopes, in_dims=tuple(None if is_shared else 0 for is_shared in shared))
        if self.plain:
            return partial(self._run_plain, slopes)
        weights = list(like.weights)
        self.algorithm.net.train()
        try:
            recorded = fx_passes.record(slopes, tensors)
        finally:
            self.algorithm.net.eval()
        fx_passes.remove_no_ops(recorded)
        hoist_scalars(recorded)
        fx_passes.fold_constants(recorded)
        if self.fuses_sgd:
            fx_passes.fuse_sgd_step(recorded, {i: weights.index(name) for i, name in enumerate(trained)})
        if tensors[0].device.type == "cpu" and not self.stacked:
            fx_passes.choose_matmul_kernels(recorded, tensors)
        recorded.recompile()
        return self._capture(recorded, tensors, weights, trained) if self.captured else recorded

    def _run_plain(self, slopes: Callable, rate: float, *tensors: Tensor) -> tuple[Tensor, ...]:
        self.algorithm.net.train()
        try:
            return slopes(*tensors)
        finally:
            self.algorithm.net.eval()

    def _capture(
        self, recorded: fx.GraphModule, tensors: list[Tensor], weights: list[str], trained: tuple[str, ...]
    ) -> Callable:
        read = fx_passes.used_inputs(recorded)
        buffers = [place for place, name in enumerate(weights) if name not in trained and place in read]
        graph = CudaGraphStep(partial(recorded, 0.0), tensors, read, buffers, self.memory_pool)
        return lambda lr, *tensors: graph(*tensors)  # its steps are taken outside

    def _loss(self, trained: Weights, others: Weights, received: Weights, batch: Batch) -> Tensor:
        with self.algorithm.autocast(self.config.precision == "bfloat16"):
            return self.algorithm.loss(trained | others, received, batch)


class Inputs(NamedTuple):
    """All that a step computes with, by name: as a flat list of tensors for the recording, and back."""

    weights: Weights
    received: Weights
    batch: Batch

    def flat(self) -> list[Tensor]:
        batch = self.batch
        return [*self.weights.values(), *self.received.values(), batch.images, batch.labels, *batch.reference_outputs,
            *batch.masks,
                *batch.constants.values()]  # fmt: skip

    def names(self) -> tuple:
        """What tells two flat lists of the same shapes apart."""
        return (*self.weights, None, *self.received, None, len(self.batch.reference_outputs), *self.batch.constants)

    def is_received(self, place: int) -> bool:
        return len(self.weights) <= place < len(self.weights) + len(self.received)

    def with_tensors(self, tensors: Sequence[Tensor]) -> "Inputs":
        """The same names with other tensors."""
        given = iter(tensors)
        weights, received = ({name: next(given) for name in names} for names in (self.weights, self.received))
        images, labels = next(given), next(given)
        frozen, masks = (tuple(next(given) for _ in rows) for rows in (self.batch.reference_outputs, self.batch.masks))
        own = {name: next(given) for name in self.batch.constants}
        return Inputs(weights, received, Batch(images, labels, frozen, masks, own))


def _match_layout(slope: Tensor, weight: Tensor) -> Tensor:
    """In the weight's memory layout: the fused step walks both as they lie."""
    return slope if slope.stride() == weight.stride() else torch.empty_like(weight).copy_(slope)
