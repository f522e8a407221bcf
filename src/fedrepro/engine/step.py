"""One step of local training: mini-batch SGD on a method's objective, recorded once for each shape of a batch, then replayed.

On networks this small, the calls of modules and of autograd cost as much as the arithmetic; a recording has neither. On CUDA
the launches that are left may be captured as one graph.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, fx
from torch.func import grad_and_value, vmap
from torch.optim.sgd import sgd

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights
from fedrepro.config import RunConfig
from fedrepro.engine import recording
from fedrepro.engine.capture import Captured


class Step:
    """`stacked`: the weights and the batch have a leading axis, one entry per client; what was received has not.
    `captured`: as CUDA graphs."""

    def __init__(self, algorithm: FedAvg, config: RunConfig, stacked: bool = False, captured: bool = False) -> None:
        self.algorithm, self.config, self.stacked, self.captured = algorithm, config, stacked, captured
        self.trained = list(algorithm.net.trained)
        plain = config.momentum == 0 and config.weight_decay == 0
        here = algorithm.net.head.weight.device.type == "cpu"
        self.descends = plain and here and not captured  # CUDA: one fused call starts less; a graph would fix the rate
        self.recordings: dict[tuple, Callable] = {}
        self.pool = torch.cuda.graph_pool_handle() if captured else None

    def velocity(self, weights: Weights) -> list[Tensor]:
        """Of the momentum, before the first step: zeros, or nothing where there is no momentum."""
        return [torch.zeros_like(weights[name]) for name in self.trained] if self.config.momentum else []

    @torch.no_grad()
    def __call__(self, weights: Weights, velocity: list[Tensor], received: Weights, batch: Batch, lr: float) -> Tensor:
        """Changes `weights` and `velocity` in place. Returns the loss before the step, one number per client."""
        tensors = [*weights.values(), *received.values(), *_flat(batch)]
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in self.recordings:
            self.recordings[shapes] = self._record(list(weights), list(received), batch, tensors)
        *slopes, loss = self.recordings[shapes](lr, *tensors)
        if not self.descends:
            sgd(
                [weights[name] for name in self.trained],
                [_laid_out(slope, weights[name]) for name, slope in zip(self.trained, slopes, strict=True)],
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

    def _record(self, weights: list[str], received: list[str], like: Batch, tensors: list[Tensor]) -> Callable:
        """(lr, tensors) -> the slope of every trained tensor, or None where it has taken its step already, and the loss.
        Only here is the network in training mode: everywhere else norm layers use, and keep, their statistics."""
        one, two = len(weights), len(weights) + len(received)

        def slopes(*tensors: Tensor) -> tuple[Tensor, ...]:
            state, fixed = dict(zip(weights, tensors[:one], strict=True)), dict(zip(received, tensors[one:two], strict=True))
            batch = _batch(tensors[two:], like)
            trained = {name: state.pop(name) for name in self.trained}  # what is left are buffers, changed in place
            found, loss = grad_and_value(self._loss)(trained, state, fixed, batch)
            return *found.values(), loss

        if self.stacked:
            slopes = vmap(slopes, in_dims=(*[0] * one, *[None] * len(received), *[0] * (len(tensors) - two)))
        self.algorithm.net.train()
        recorded = recording.record(slopes, tensors)
        self.algorithm.net.eval()
        recording.shorten(recorded)
        recording.fold(recorded)
        if self.descends:
            recording.descend(recorded, {i: weights.index(name) for i, name in enumerate(self.trained)})
        if tensors[0].device.type == "cpu" and not self.stacked:
            recording.dense(recorded, tensors)
        return self._captured(recorded, tensors, weights) if self.captured else recorded

    def _captured(self, recorded: fx.GraphModule, tensors: list[Tensor], weights: list[str]) -> Callable:
        buffers = [place for place, name in enumerate(weights) if name not in self.trained]
        graph = Captured(partial(recorded, 0.0), tensors, recording.read(recorded), buffers, self.pool)
        return lambda lr, *tensors: graph(*tensors)  # its steps are taken outside

    def _loss(self, trained: Weights, buffers: Weights, received: Weights, batch: Batch) -> Tensor:
        half = self.config.precision == "bfloat16"
        with torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            return self.algorithm.loss(trained | buffers, received, batch)


def _flat(batch: Batch) -> tuple[Tensor, ...]:
    return batch.images, batch.labels, *batch.frozen, *batch.masks


def _batch(tensors: tuple[Tensor, ...], like: Batch) -> Batch:
    """What `_flat` made flat, with as many frozen rows as in `like`."""
    images, labels, *rest = tensors
    return Batch(images, labels, tuple(rest[: len(like.frozen)]), tuple(rest[len(like.frozen) :]))


def _laid_out(slope: Tensor, weight: Tensor) -> Tensor:
    """In the weight's memory layout: the fused step walks both as they lie."""
    return slope if slope.stride() == weight.stride() else torch.empty_like(weight).copy_(slope)
