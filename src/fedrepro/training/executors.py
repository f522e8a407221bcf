"""How the clients of a round are trained: one after the other, or all as one batched computation.

Same samples in the same order, same steps: the two agree but for the rounding of sums (tests/training/test_executors.py), and
for what a method decides by a comparison that rounding may turn. Either may have its steps captured as CUDA graphs:
`sequential+graph`, `stacked+graph`. `plain` records nothing, for debugging.

An executor trains what it is given: a `Feed` for each client, which brings batches and what is the client's own.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter

import torch
from torch import Tensor

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Batch, Weights
from fedrepro.config.params import RunConfig
from fedrepro.core.errors import UserError
from fedrepro.training.batches.client_batches import ClientBatches, stack_batches
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.compiled_step.step import Step
from fedrepro.training.evaluation import activations

TrainedClients = Iterator[tuple[Weights, Tensor, Weights]]
SMALL_STEP = 8_000_000  # floating-point operations of a client's forward pass over a batch
MIN_STACKED_CLIENTS = 4  # clients
# Of the same operations: three times as many take a GPU as long, at 1e13 a second, as 50 nodes of a graph take to begin
LAUNCH_BOUND_STEP = 300_000_000
STACK_NUMBERS = 2**26  # numbers in the weights and in what the layers put out of one stack; a step has a few times as many


class Executor:
    """`captured`, `recordings`: see `Step`."""

    name: str
    stacked = plain = False

    def __init__(
        self,
        algorithm: FedAvg,
        config: RunConfig,
        data: FederatedData,
        captured: bool = False,
        recordings: dict | None = None,
    ) -> None:
        self.algorithm, self.config, self.data = algorithm, config, data
        self.step = Step(algorithm, config, self.stacked, captured, self.plain, recordings)

    def train(self, received: Weights, clients: Iterable[ClientBatches], lr: float, trained: tuple[str, ...]) -> TrainedClients:
        """Local training from where a feed starts: mini-batch SGD over its batches, on the `trained` weights. Yields for each
        feed, in order, the weights, the mean loss over the steps (a scalar tensor, not yet read from the device), and, where
        the settings keep it, the momentum of each trained weight."""
        raise NotImplementedError


class Sequential(Executor):
    """The reference: clients one after the other, in the memory of one."""

    name = "sequential"

    def train(self, received: Weights, feeds: Iterable[ClientBatches], lr: float, trained: tuple[str, ...]) -> TrainedClients:
        for feed in feeds:
            weights = {name: feed.start[name].clone() for name in self.algorithm.names}
            velocity = self.step.velocity(weights, trained, feed.velocity)
            steps = range(len(feed.sizes))
            losses = [self.step(weights, velocity, received, feed.batch(step), lr, trained) for step in steps]
            kept = dict(zip(trained, velocity, strict=True)) if self.config.keep_momentum else {}
            yield weights, torch.stack(losses).double().mean(), kept


class Plain(Sequential):
    """The same without a recording: slower, but a debugger sees every operation of a method."""

    name = "plain"
    plain = True


class Stacked(Executor):
    """Clients at once over stacked weights, as many as `together` says: one call where `Sequential` makes as many as there are
    clients.

    Clients that have no batch left, or one of another size, step apart from the others: no objective and no norm layer ever
    sees a padded row.
    """

    name = "stacked"
    stacked = True

    @cached_property
    def stack_size(self) -> int:
        """Clients in one stack."""
        weights = sum(tensor.numel() for tensor in self.algorithm.net.state_dict().values())
        images = min(self.config.batch_size, len(self.data.train_x))
        return max(1, STACK_NUMBERS // (weights + images * activations(self.algorithm, self.data.train_x.shape[1:])))

    def train(self, received: Weights, feeds: Iterable[ClientBatches], lr: float, trained: tuple[str, ...]) -> TrainedClients:
        waiting = iter(feeds)
        while stack := list(islice(waiting, self.stack_size)):
            yield from self._train(received, stack, lr, trained)

    def _train(self, received: Weights, feeds: list[ClientBatches], lr: float, trained: tuple[str, ...]) -> TrainedClients:
        weights = {name: torch.stack([feed.start[name] for feed in feeds]) for name in self.algorithm.names}
        own = {name: torch.stack([feed.constants[name] for feed in feeds]) for name in feeds[0].constants}
        velocity = self.step.velocity(weights, trained, self._stack_velocity(feeds, trained))
        total = torch.zeros(len(feeds), dtype=torch.float64, device=self.data.device)
        for step in range(max(len(feed.sizes) for feed in feeds)):
            for clients in _group_by_batch_size(feeds, step):
                batch = stack_batches([feeds[client] for client in clients], step, own)
                if len(clients) == len(feeds):
                    total += self.step(weights, velocity, received, batch, lr, trained).double()
                else:
                    losses = self._step_some(weights, velocity, received, batch, lr, trained, clients).double()
                    torch._foreach_add_([total[client] for client in clients], list(losses))
        kept = dict(zip(trained, velocity, strict=True)) if self.config.keep_momentum else {}
        for client, feed in enumerate(feeds):
            ended = {name: tensor[client] for name, tensor in weights.items()}
            yield ended, total[client] / len(feed.sizes), {name: tensor[client].clone() for name, tensor in kept.items()}

    def _stack_velocity(self, feeds: list[ClientBatches], trained: tuple[str, ...]) -> Weights:
        """The momentum that clients start with, stacked; nothing where none has any."""
        if not any(feed.velocity for feed in feeds):
            return {}
        none = torch.zeros_like
        return {name: torch.stack([feed.velocity.get(name, none(feed.start[name])) for feed in feeds]) for name in trained}

    def _step_some(
        self,
        weights: Weights,
        velocity: list[Tensor],
        received: Weights,
        batch: Batch,
        lr: float,
        trained: tuple[str, ...],
        clients: list[int],
    ) -> Tensor:
        """A step of these `clients` alone. (`whole[rows] = part` is eleven launches a tensor on CUDA, to be repeatable.)"""
        rows = torch.tensor(clients).to(self.data.device, non_blocking=True)
        part = {name: tensor[rows] for name, tensor in weights.items()}
        moving = [tensor[rows] for tensor in velocity]
        batch = batch._replace(constants={name: tensor[rows] for name, tensor in batch.constants.items()})
        loss = self.step(part, moving, received, batch, lr, trained)
        for whole, changed in zip([*weights.values(), *velocity], [*part.values(), *moving], strict=True):
            torch._foreach_copy_([whole[client] for client in clients], list(changed))
        return loss


EXECUTORS = {executor.name: executor for executor in (Sequential, Stacked, Plain)}


def available(device: torch.device) -> list[str]:
    """The names of those that run on a device."""
    return [*EXECUTORS, *(f"{name}+graph" for name in ("sequential", "stacked") if device.type == "cuda")]


def create(
    name: str, algorithm: FedAvg, config: RunConfig, data: FederatedData, flops: int, recordings: dict | None = None
) -> Executor:
    """The named executor; `auto` picks for a network of so many operations per image. `recordings`: see `Step`."""
    if name == "auto":
        name = pick(config, flops, data.device)
    if name not in (known := available(data.device)):
        raise UserError(f"executor: on {data.device.type} one of auto, {', '.join(known)} (got {name})")
    kind, _, graph = name.partition("+")
    executor = EXECUTORS[kind](algorithm, config, data, captured=bool(graph), recordings=recordings)
    executor.name = name
    return executor


def uses_worker_pool(name: str, device: torch.device) -> bool:
    """Whether clients that are trained so are shared out over several cores: on a processor, one after the other, and not for a
    debugger."""
    return device.type == "cpu" and name == Sequential.name


def pick(config: RunConfig, flops: int, device: torch.device) -> str:
    """The faster executor. Stacking saves calls but multiplies less well: on a processor it wins where a client's step is small
    and the cohort is not (`benchmarks/rule.py` measures it). On CUDA a step is a graph, and stacking saves launches: it wins
    for two clients already, unless arithmetic hides the launches (reckoned, not measured: no GPU has run it)."""
    operations = config.batch_size * flops
    if device.type == "cuda":
        return "stacked+graph" if operations <= LAUNCH_BOUND_STEP and config.clients_per_round > 1 else "sequential+graph"
    return "stacked" if operations <= SMALL_STEP and config.clients_per_round >= MIN_STACKED_CLIENTS else "sequential"


def _group_by_batch_size(feeds: list[ClientBatches], step: int) -> list[list[int]]:
    """The clients that have a batch left, grouped by its size."""
    sizes = [(feed.sizes[step], client) for client, feed in enumerate(feeds) if step < len(feed.sizes)]
    return [[client for _, client in group] for _, group in groupby(sorted(sizes), key=itemgetter(0))]
