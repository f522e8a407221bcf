"""Trial of networks with modules that are not known here: what the executors can do with them.

A module whose steps cannot be stacked is trained one client at a time; one whose steps cannot be
recorded (its Python code depends on the values of tensors) is trained without recordings. A step
that depends on more than weights and batch, such as random numbers that do not come from the run's
generators, or state that a client would leave to the next one, is an error.
"""

import io
import logging
import pickle
import random
import weakref
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from fedrepro.algorithms.base import Batch, FedAvg, Weights
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Frozen
from fedrepro.core import rng
from fedrepro.core.errors import UserError, user_code
from fedrepro.models import Net, dropout_masks
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.compiled_step.step import Step

log = logging.getLogger(__name__)
IMAGES, CLIENTS = 2, 2  # of a batch of the trial, and of a stack
# of a number after a recorded step, relative to the largest that the plain one has: rounding makes
# 0.01 at most (in bfloat16); images that are a constant of the recording make more, and are seen as
# such besides
TOLERANCE = 0.02
SIMPLER = {
    "stacked": "sequential",
    "sequential": "plain",
    "stacked+graph": "sequential+graph",
    "sequential+graph": "plain",
}
REMEDY = (
    "Results could not be repeated, or clients would share state. Use nn.Dropout or "
    "torch.nn.functional.dropout for random numbers, and register what training changes as a "
    "persistent buffer (register_buffer)"
)


def usable_executor(name: str, algorithm: FedAvg, config: RunConfig, data: FederatedData) -> str:
    """Return the named executor, or the next simpler one that can train the network; then log a
    warning.

    Raises UserError for a network that none can train, or whose results could not be repeated."""
    net, chosen, reason = algorithm.net, name, ""
    if not net.draws and all(getattr(layer, "momentum", 0) is not None for layer in net.modules()):
        return name  # batch normalisation without momentum reads its counter in Python
    # without what a method adds
    model, base = net.spec.model, Net(net.extractor, net.hidden, net.head, net.init, net.spec)
    plain = FedAvg(Frozen(), base, rng.generator(0, "trial"), algorithm.task)
    # Adam makes steps of rounding where gradients are 0
    config = config.model_copy(update={"optimizer": "sgd", "lr": 1.0})
    with torch.random.fork_rng(devices=[]):
        batches = [_trial_batch(plain, data, number) for number in range(2)]
        with user_code(
            f"model {model}: a step of its training on images of shape "
            f"{tuple(batches[0].images.shape)} fails"
        ):
            _check_repeatable(plain, model, batches)
            step = Step(plain, config, plain=True)
            wanted = [_take(step, batch) for batch in batches]
        while chosen != "plain":
            try:
                _check_recording(chosen, plain, config, batches, wanted)
                break
            except Exception as error:  # of the user's code; plain steps can be taken
                reason, chosen = reason or str(error).partition("\n")[0], SIMPLER[chosen]
    if chosen != name:
        how = "" if chosen.startswith("sequential") else ", without recorded steps"
        log.warning(
            "model %s: its clients are trained one by one%s, since torch cannot do otherwise: %s",
            model,
            how,
            reason,
        )
    return chosen


def _trial_batch(algorithm: FedAvg, data: FederatedData, number: int) -> Batch:
    index = torch.arange(number * IMAGES, (number + 1) * IMAGES, device=data.device) % len(
        data.train_y
    )
    masks = dropout_masks(algorithm.net, IMAGES, rng.generator(0, "trial"))
    return Batch(data.images(index, None, None), data.train_y[index], masks=masks)


@torch.no_grad()
def _check_repeatable(algorithm: FedAvg, model: str, batches: list[Batch]) -> None:
    """Raise UserError unless forward passes, in evaluation and in training on each batch, have the
    same results again, to the bit, and leave the modules' attributes and all generators of random
    numbers as they were."""
    passes, states = [], []
    for _ in range(2):
        results = [algorithm.forward(_weights(algorithm), batches[0].images).logits]
        for batch in batches:
            weights = _weights(algorithm)
            algorithm.net.train()
            try:
                results += [algorithm.outputs(weights, batch).logits, *weights.values()]
            finally:
                algorithm.net.eval()
        passes.append(results)
        # after a first time, which may fill caches of constants
        states.append(_state(algorithm.net))
    changed = [name for name, state in states[0].items() if states[1].get(name) != state]
    if not changed and not _agree(passes[0], passes[1], 0):
        changed = ["has other results the second time, on the same images and weights"]
    if changed:
        raise UserError(f"model {model}: its forward pass {changed[0]}. {REMEDY}")


def _check_recording(
    name: str,
    algorithm: FedAvg,
    config: RunConfig,
    batches: list[Batch],
    wanted: list[list[Tensor]],
) -> None:
    """Raise ValueError unless an executor records the same from each batch, and its recording of
    the first one's step computes the `wanted` results of each."""
    stacked = name.startswith("stacked")
    steps = [Step(algorithm, config, stacked) for _ in batches]
    results = [_take(steps[0], batch) for batch in batches]
    _take(steps[1], batches[1])
    one, other = (next(iter(step.recordings.values())) for step in steps)
    assert isinstance(one, fx.GraphModule) and isinstance(other, fx.GraphModule)
    same = one.code == other.code and _agree([*one.buffers()], [*other.buffers()], 0)
    if not same or not all(
        _agree(result, plain, TOLERANCE) for result, plain in zip(results, wanted, strict=True)
    ):
        raise ValueError("recorded steps differ from those of its Python code")


def _take(step: Step, batch: Batch) -> list[Tensor]:
    """Return the loss of a step and all weights after it, of the first client of a stack."""
    weights = _weights(step.algorithm)
    received = dict(weights)
    if step.stacked:
        weights = {key: torch.stack([tensor] * CLIENTS) for key, tensor in weights.items()}
        images, labels, *masks = (
            torch.stack([tensor] * CLIENTS) for tensor in (batch.images, batch.labels, *batch.masks)
        )
        batch = Batch(images, labels, masks=tuple(masks))
    loss = step(
        weights, step.velocity(weights, step.algorithm.trained), received, batch, step.config.lr
    )
    results = [loss, *weights.values()]
    return [tensor[0] for tensor in results] if step.stacked else results


def _weights(algorithm: FedAvg) -> Weights:
    return {name: tensor.detach().clone() for name, tensor in algorithm.net.tensors.items()}


def _agree(ones: list[Tensor], others: list[Tensor], tolerance: float) -> bool:
    """Return whether tensors are the same up to a share of the largest number in each."""
    pairs = [(one.double(), other.double()) for one, other in zip(ones, others, strict=True)]
    scales = [
        tolerance * float(other.nan_to_num(0, 0, 0).abs().max()) if tolerance else 0
        for _, other in pairs
    ]
    return all(
        torch.allclose(*pair, 0, scale, equal_nan=True)
        for pair, scale in zip(pairs, scales, strict=True)
    )


def _state(net: nn.Module) -> dict[str, bytes | None]:
    """Return the state of generators of random numbers and of all modules' attributes, by what a
    change of it says."""
    state: dict[str, Any] = {
        "draws from Python's random": random.getstate(),
        "draws from numpy.random": np.random.get_state(),
        "draws from torch's own generator": bytes(torch.get_rng_state().numpy()),
    }
    for place, module in net.named_modules():
        state |= {f"changes {place}.{key}": value for key, value in vars(module).items()}
    return {name: _serialise(value) for name, value in state.items()}


class _Pickler(pickle.Pickler):
    """Serialises values without the tensors, modules and code that they refer to."""

    def persistent_id(self, obj: Any) -> str | int | None:
        if isinstance(obj, Tensor | nn.Module | weakref.ref):
            return type(obj).__name__
        return id(obj) if isinstance(obj, FunctionType | type) else None


def _serialise(value: Any) -> bytes | None:
    """Return a value in bytes; None for one of a type that has none, of which only its influence on
    results is seen."""
    file = io.BytesIO()
    try:
        _Pickler(file).dump(value)
    except (AttributeError, TypeError, RuntimeError, pickle.PicklingError):
        return None
    return file.getvalue()
