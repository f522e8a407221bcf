"""Trial of networks with modules that are not known here: what the executors can do with them.

A module whose steps cannot be stacked is trained one client at a time; one whose steps cannot be recorded (its Python code
depends on the values of tensors) is trained without recordings. Random numbers that do not come from the run's generators, and
state that a client would leave to the next one, are errors.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedrepro.algorithms.base import Batch, FedAvg, Weights
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Frozen
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import Net, dropout_masks
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.compiled_step.step import Step

log = logging.getLogger(__name__)
IMAGES, CLIENTS = 2, 2  # of the trial
SIMPLER = {"stacked": "sequential", "sequential": "plain", "stacked+graph": "sequential+graph", "sequential+graph": "plain"}


def usable_executor(name: str, algorithm: FedAvg, config: RunConfig, data: FederatedData) -> str:
    """Return the named executor, or the next simpler one that can train the network; then log a warning.

    Raises UserError for a network that none can train, or whose results could not be repeated."""
    net, chosen, reason = algorithm.net, name, ""
    if not net.draws and all(getattr(layer, "momentum", 0) is not None for layer in net.modules()):
        return name  # batch normalisation without momentum reads its counter in Python
    model, base = net.spec.model, Net(net.extractor, net.hidden, net.head, net.init, net.spec)  # without what a method adds
    plain = FedAvg(Frozen(), base, rng.generator(0, "trial"), algorithm.task)
    with torch.random.fork_rng(devices=[]):
        _check_state(plain, model, data)
        while True:
            try:
                _take_step(chosen, plain, config, data)
                break
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                reason = reason or str(error).partition("\n")[0]
                if chosen not in SIMPLER:
                    raise UserError(f"model {model}: a step of its training fails: {error}") from error
                chosen = SIMPLER[chosen]
    if chosen != name:
        how = "" if chosen.startswith("sequential") else ", without recorded steps"
        log.warning("model %s: its clients are trained one by one%s, since torch cannot do otherwise: %s", model, how, reason)
    return chosen


def _trial_batch(algorithm: FedAvg, data: FederatedData) -> Batch:
    index = torch.arange(IMAGES, device=data.device) % len(data.train_y)
    masks = dropout_masks(algorithm.net, IMAGES, rng.generator(0, "trial"))
    return Batch(data.images(index, None, None), data.train_y[index], masks=masks)


def _take_step(name: str, algorithm: FedAvg, config: RunConfig, data: FederatedData) -> None:
    """Take one step with the steps of an executor."""
    weights, batch = _weights(algorithm), _trial_batch(algorithm, data)
    received, stacked = dict(weights), name.startswith("stacked")
    if stacked:
        weights = {key: torch.stack([tensor] * CLIENTS) for key, tensor in weights.items()}
        images, labels, *masks = (torch.stack([tensor] * CLIENTS) for tensor in (batch.images, batch.labels, *batch.masks))
        batch = Batch(images, labels, masks=tuple(masks))
    step = Step(algorithm, config, stacked, captured=False, plain=name == "plain")
    step(weights, step.velocity(weights, algorithm.trained), received, batch, config.lr)


def _check_state(algorithm: FedAvg, model: str, data: FederatedData) -> None:
    """Raise UserError if a forward pass in training draws random numbers or changes state that is not among the weights."""
    net, batch = algorithm.net, _trial_batch(algorithm, data)
    before, weights = _hidden_state(net), _weights(algorithm)
    net.train()
    try:
        with torch.no_grad(), _no_draws(model):
            algorithm.outputs(weights, batch)
    finally:
        net.eval()
    after = _hidden_state(net)
    changed = [name for name, value in before.items() if not _same(value, after.get(name))]
    if changed:
        raise UserError(
            f"model {model}: training changes {changed[0]}, which is not among its weights and buffers, so that clients would "
            "share it. Register it by register_buffer as a persistent buffer"
        )


def _weights(algorithm: FedAvg) -> Weights:
    return {name: tensor.detach().clone() for name, tensor in algorithm.net.tensors.items()}


def _hidden_state(net: nn.Module) -> dict[str, Any]:
    """Return the buffers that are not in the state_dict, and the numbers among the modules' attributes."""
    stored = net.state_dict().keys()
    state: dict[str, Any] = {name: buffer.clone() for name, buffer in net.named_buffers() if name not in stored}
    for place, module in net.named_modules():
        numbers = {key: value for key, value in vars(module).items() if isinstance(value, int | float) and key != "training"}
        state |= {f"{place}.{key}": value for key, value in numbers.items()}
    return state


def _same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) and isinstance(other, Tensor) else one is other or one == other


def _dropout(function: Any, args: tuple, kwargs: dict) -> float | None:
    """Return the rate of dropout of a fused attention, which draws only if it is not 0; None for other operations."""
    defaults = {argument.name: argument.default_value for argument in function._schema.arguments}
    return (defaults | dict(zip(defaults, args, strict=False)) | kwargs).get("dropout_p")


@contextmanager
def _no_draws(model: str) -> Iterator[None]:
    """Raise UserError if an operation within the context draws from torch's own generator."""

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if torch.Tag.nondeterministic_seeded in function.tags and _dropout(function, args, kwargs or {}) != 0:
                raise UserError(
                    f"model {model}: {function.name()} draws from torch's own generator, so that results could not be "
                    "repeated. Use nn.Dropout or torch.nn.functional.dropout"
                )
            return function(*args, **(kwargs or {}))

    with Watch():
        yield
