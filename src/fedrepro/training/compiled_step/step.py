"""A step of local training: mini-batch SGD or Adam on a method's objective, recorded once for each
shape of batch.

On networks this small, calls of modules and autograd cost as much as the arithmetic; a recording
needs neither. On CUDA the remaining launches may be captured as one graph.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, fx
from torch.func import grad_and_value
from torch.optim.sgd import sgd
from torch.utils._pytree import tree_structure, tree_unflatten

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights, vmap_silently
from fedrepro.config.params import Adam, RunConfig
from fedrepro.training.compiled_step import fx_passes
from fedrepro.training.compiled_step.cuda_graph import CudaGraphStep
from fedrepro.training.compiled_step.scalar_pass import hoist_scalars

# in memory at a time: a method whose networks grow needs new ones in every round
MAX_RECORDINGS = 256


class Step:
    """A function that takes one step of SGD or Adam.

    Args:
        stacked: weights and batches have a leading axis of clients; received weights have one only
            if they are clients' own.
        captured: steps are captured as CUDA graphs.
        plain: steps are not recorded, so that a debugger or a print sees every operation.
        recordings: recorded steps of runs with the same network, method and executor, and a place
            for new ones. Recording takes seconds; a recording contains no weights.
    """

    def __init__(
        self,
        algorithm: FedAvg,
        config: RunConfig,
        stacked: bool = False,
        captured: bool = False,
        plain: bool = False,
        recordings: dict[tuple, Callable] | None = None,
    ) -> None:
        self.algorithm, self.config, self.stacked, self.captured, self.plain = (
            algorithm,
            config,
            stacked,
            captured,
            plain,
        )
        simple = config.optimizer == "sgd" and config.momentum == 0 and config.weight_decay == 0
        on_cpu = algorithm.net.head.weight.device.type == "cpu"
        # not on CUDA, where one fused call needs fewer launches, and not in a graph, which would
        # fix the learning rate
        self.fuses_sgd = simple and on_cpu and not (captured or plain)
        self.recordings = {} if recordings is None or plain else recordings
        self.memory_pool = torch.cuda.graph_pool_handle() if captured else None

    def velocity(
        self, weights: Weights, trained: tuple[str, ...], kept: Weights | None = None
    ) -> list[Tensor]:
        """Return what the optimiser knows before the first step.

        SGD: the momentum of each trained weight, the `kept` one or else zeros; [] without momentum.
        Adam: both moments of each weight, then the number of steps, one for each stacked client.
        """
        if self.config.optimizer != "sgd":
            moments = [torch.zeros_like(weights[name]) for name in trained]
            clients = next(iter(weights.values())).shape[:1] if self.stacked else ()
            steps = torch.zeros(clients, dtype=torch.float64, device=moments[0].device)
            return [*moments, *map(torch.zeros_like, moments), steps]
        if not self.config.momentum:
            return []
        kept = kept or {}
        return [
            kept[name].clone() if name in kept else torch.zeros_like(weights[name])
            for name in trained
        ]

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
        """Change the `trained` ones of `weights` (None: those that the network trains) and
        `velocity` in place.

        Returns the loss before the step: a scalar, or one number per stacked client."""
        trained = trained or self.algorithm.trained
        inputs = Inputs(weights, received, batch)
        tensors = inputs.flat()
        key = (self.stacked, trained, inputs.names(), tuple(tensor.shape for tensor in tensors))
        if key not in self.recordings:
            if len(self.recordings) == MAX_RECORDINGS:
                del self.recordings[next(iter(self.recordings))]
            self.recordings[key] = self._record(trained, inputs, tensors)
        *gradients, loss = self.recordings[key](lr, *tensors)
        if self.config.optimizer != "sgd":
            adam(
                [weights[name] for name in trained],
                gradients,
                velocity,
                lr,
                self.config.optimizer,
                self.config.weight_decay,
            )
        elif not self.fuses_sgd:
            sgd(
                [weights[name] for name in trained],
                [
                    _match_layout(gradient, weights[name])
                    for name, gradient in zip(trained, gradients, strict=True)
                ],
                [*velocity] or [None] * len(gradients),
                fused=True,
                lr=lr,
                momentum=self.config.momentum,
                nesterov=self.config.nesterov,
                weight_decay=self.config.weight_decay,
                dampening=0,
                maximize=False,
            )
        return loss.clone() if self.captured else loss

    def _record(
        self, trained: tuple[str, ...], inputs: "Inputs", tensors: list[Tensor]
    ) -> Callable:
        """Record a function from (lr, *tensors) to the gradient of every trained tensor, then the
        loss.

        A gradient is None if the recording takes the step itself. The network is in training mode
        only here; elsewhere normalisation uses its running statistics and leaves them unchanged.
        """
        shared = inputs.shared(self.algorithm.own, len(tensors))

        def gradients(*tensors: Tensor) -> tuple[Tensor, ...]:
            state, received, batch = inputs.with_tensors(tensors)
            # `state` keeps frozen weights, and buffers that change in place
            free = {name: state.pop(name) for name in trained}
            gradients, loss = grad_and_value(self._loss)(free, state, received, batch)
            return *gradients.values(), loss

        if self.stacked:
            gradients = vmap_silently(
                gradients, tuple(None if is_shared else 0 for is_shared in shared)
            )
        if self.plain:
            return partial(self._run_plain, gradients)
        weights = list(inputs.weights)
        self.algorithm.net.train()
        try:
            recorded = fx_passes.record(gradients, tensors)
        finally:
            self.algorithm.net.eval()
        fx_passes.remove_no_ops(recorded)
        hoist_scalars(recorded)
        fx_passes.fold_constants(recorded)
        if self.fuses_sgd:
            fx_passes.fuse_sgd_step(
                recorded, {i: weights.index(name) for i, name in enumerate(trained)}
            )
        if tensors[0].device.type == "cpu" and not self.stacked:
            fx_passes.choose_matmul_kernels(recorded, tensors)
        recorded.recompile()
        return self._capture(recorded, tensors, weights, trained) if self.captured else recorded

    def _run_plain(self, gradients: Callable, rate: float, *tensors: Tensor) -> tuple[Tensor, ...]:
        self.algorithm.net.train()
        try:
            return gradients(*tensors)
        finally:
            self.algorithm.net.eval()

    def _capture(
        self,
        recorded: fx.GraphModule,
        tensors: list[Tensor],
        weights: list[str],
        trained: tuple[str, ...],
    ) -> Callable:
        read = fx_passes.used_inputs(recorded)
        buffers = [
            place for place, name in enumerate(weights) if name not in trained and place in read
        ]
        graph = CudaGraphStep(partial(recorded, 0.0), tensors, read, buffers, self.memory_pool)
        return lambda lr, *tensors: graph(*tensors)  # SGD is not part of the graph

    def _loss(self, trained: Weights, others: Weights, received: Weights, batch: Batch) -> Tensor:
        with self.algorithm.autocast(self.config.precision == "bfloat16"):
            return self.algorithm.loss(trained | others, received, batch)


class Inputs(NamedTuple):
    """The named inputs of a step, which become a flat list of tensors for the recording and are
    restored from one."""

    weights: Weights
    received: Weights
    batch: Batch

    def flat(self) -> list[Tensor]:
        images, labels, outputs, masks, constants = self.batch
        return [
            *self.weights.values(),
            *self.received.values(),
            images,
            labels,
            *outputs,
            *masks,
            *constants.values(),
        ]

    def names(self) -> tuple:
        """Return names that distinguish flat lists of the same shapes."""
        return (
            *self.weights,
            None,
            *self.received,
            None,
            len(self.batch.reference_outputs),
            *self.batch.constants,
        )

    def shared(self, own: tuple[str, ...], count: int) -> list[bool]:
        """Return which of `count` tensors in a flat list all clients share: the received ones that
        are not clients' `own`."""
        shared = [*(False for _ in self.weights), *(name not in own for name in self.received)]
        return shared + [False] * (count - len(shared))

    def with_tensors(self, tensors: Sequence[Tensor]) -> "Inputs":
        """Return inputs with the same names and the tensors of a flat list."""
        return tree_unflatten(list(tensors), tree_structure(self))


def adam(
    weights: list[Tensor],
    gradients: list[Tensor],
    state: list[Tensor],
    lr: float,
    options: Adam,
    decay: float,
) -> None:
    """Take a step of Adam in place: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= lr m / (1
    - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon), g the gradient with weight decay.

    Args:
        state: as `Step.velocity` returns it. Stacked clients have steps t of their own: the last
            may have fewer batches.
    """
    first, second, steps = state[: len(weights)], state[len(weights) : -1], state[-1]
    steps += 1
    for weight, gradient, mean, square in zip(weights, gradients, first, second, strict=True):
        gradient = gradient + decay * weight if decay else gradient
        mean.lerp_(gradient, 1 - options.beta1)
        square.lerp_(gradient * gradient, 1 - options.beta2)
        # in float64: near 0 at the first steps
        corrections = (1 - beta**steps for beta in (options.beta1, options.beta2))
        shape = (*steps.shape, *(1,) * (weight.dim() - steps.dim()))
        unbiased, scale = (correction.view(shape).to(weight.dtype) for correction in corrections)
        weight.sub_(
            mean.div(unbiased).div_(square.div(scale).sqrt_().add_(options.epsilon)), alpha=lr
        )


def _match_layout(gradient: Tensor, weight: Tensor) -> Tensor:
    """Copy a gradient to the weight's memory layout if it has another: the fused step ignores
    strides."""
    return (
        gradient
        if gradient.stride() == weight.stride()
        else torch.empty_like(weight).copy_(gradient)
    )
