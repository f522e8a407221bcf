"""Executors, which train the clients of a round: one after the other (`sequential`), or as one
batched computation (`stacked`).

Both take the same steps on the same samples in the same order. Their results differ only by the
rounding of sums (tests/training/test_executors.py), and where a method compares numbers that
rounding may order differently. Steps may be captured as CUDA graphs: `sequential+graph`,
`stacked+graph`. `plain` records no steps, for debugging.
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
from fedrepro.training import own_modules
from fedrepro.training.batches.client_batches import ClientBatches, stack_batches
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.compiled_step.step import Step
from fedrepro.training.evaluation import activations

add_, copy_ = torch._foreach_add_, torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]  (not in the stubs)
# weights, mean loss and momentum of each client
TrainedClients = Iterator[tuple[Weights, Tensor, Weights]]
# floating-point operations of a forward pass over a batch, at most, for a client to be stacked
SMALL_STEP = 8_000_000
MIN_STACKED_CLIENTS = 4
# Forward operations of a batch below which launches dominate on a GPU: a step does three times as
# many, which at 1e13 a second take as long as launching 50 graph nodes
LAUNCH_BOUND_STEP = 300_000_000
# numbers in the weights and layer outputs of one stack; a step needs a few times as many
STACK_NUMBERS = 2**26


class Executor:
    """A way to train clients. `captured`, `recordings`: see `Step`."""

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

    def train(
        self, clients: Iterable[ClientBatches], lr: float, trained: tuple[str, ...]
    ) -> TrainedClients:
        """Train each client by mini-batch SGD or Adam on its batches; only the `trained` weights
        change.

        Yields for each client, in order, its weights, its mean loss over the steps (a scalar
        tensor, not yet read from the device), and the momentum of each trained weight if the
        settings keep it."""
        raise NotImplementedError


class Sequential(Executor):
    """The reference: clients one after the other, with the memory of one."""

    name = "sequential"

    def train(
        self, clients: Iterable[ClientBatches], lr: float, trained: tuple[str, ...]
    ) -> TrainedClients:
        for client in clients:
            weights = {name: client.start[name].clone() for name in self.algorithm.names}
            velocity = self.step.velocity(weights, trained, client.velocity)
            steps = range(len(client.sizes))
            losses = [
                self.step(weights, velocity, client.received, client.batch(step), lr, trained)
                for step in steps
            ]
            momentum = (
                dict(zip(trained, velocity, strict=True)) if self.config.keep_momentum else {}
            )
            yield weights, torch.stack(losses).double().mean(), momentum


class Plain(Sequential):
    """Sequential training without recorded steps: slower, but a debugger sees every operation of a
    method."""

    name = "plain"
    plain = True


class Stacked(Executor):
    """Up to `stack_size` clients at once, over stacked weights: one call in place of one for each
    client.

    Clients whose batches have different sizes, or that have none left, take their steps separately:
    no objective and no norm layer ever sees a padded row.
    """

    name = "stacked"
    stacked = True

    @cached_property
    def stack_size(self) -> int:
        """The number of clients in one stack, by the memory that they take."""
        weights = sum(tensor.numel() for tensor in self.algorithm.net.state_dict().values())
        images = min(self.config.batch_size, len(self.data.train_x))
        return max(
            1,
            STACK_NUMBERS
            // (weights + images * activations(self.algorithm, self.data.train_x.shape[1:])),
        )

    def train(
        self, clients: Iterable[ClientBatches], lr: float, trained: tuple[str, ...]
    ) -> TrainedClients:
        waiting = iter(clients)
        while stack := list(islice(waiting, self.stack_size)):
            yield from self._train(stack, lr, trained)

    def _train(
        self, clients: list[ClientBatches], lr: float, trained: tuple[str, ...]
    ) -> TrainedClients:
        weights = {
            name: torch.stack([client.start[name] for client in clients])
            for name in self.algorithm.names
        }
        own = {
            name: torch.stack([client.received[name] for client in clients])
            for name in self.algorithm.own
        }
        received = clients[0].received | own
        constants = {
            name: torch.stack([client.constants[name] for client in clients])
            for name in clients[0].constants
        }
        velocity = self.step.velocity(weights, trained, self._stack_velocity(clients, trained))
        total = torch.zeros(len(clients), dtype=torch.float64, device=self.data.device)
        for step in range(max(len(client.sizes) for client in clients)):
            for places in _group_by_batch_size(clients, step):
                batch = stack_batches([clients[place] for place in places], step, constants)
                if len(places) == len(clients):
                    total += self.step(weights, velocity, received, batch, lr, trained).double()
                else:
                    losses = self._step_some(
                        weights, velocity, received, batch, lr, trained, places
                    ).double()
                    add_([total[place] for place in places], list(losses))
        momentum = dict(zip(trained, velocity, strict=True)) if self.config.keep_momentum else {}
        for place, client in enumerate(clients):
            client_weights = {name: tensor[place] for name, tensor in weights.items()}
            client_momentum = {name: tensor[place].clone() for name, tensor in momentum.items()}
            yield client_weights, total[place] / len(client.sizes), client_momentum

    def _stack_velocity(self, clients: list[ClientBatches], trained: tuple[str, ...]) -> Weights:
        """Stack the momentum that clients start with; {} if none has any."""
        if not any(client.velocity for client in clients):
            return {}

        def stacked(name: str) -> Tensor:
            return torch.stack(
                [
                    client.velocity.get(name, torch.zeros_like(client.start[name]))
                    for client in clients
                ]
            )

        return {name: stacked(name) for name in trained}

    def _step_some(
        self,
        weights: Weights,
        velocity: list[Tensor],
        received: Weights,
        batch: Batch,
        lr: float,
        trained: tuple[str, ...],
        places: list[int],
    ) -> Tensor:
        """Take a step of the stacked clients at `places`. (`whole[rows] = part` is eleven launches
        a tensor on CUDA, to be repeatable.)"""
        rows = torch.tensor(places).to(self.data.device, non_blocking=True)
        part = {name: tensor[rows] for name, tensor in weights.items()}
        part_velocity = [tensor[rows] for tensor in velocity]
        received = received | {name: received[name][rows] for name in self.algorithm.own}
        batch = batch._replace(
            constants={name: tensor[rows] for name, tensor in batch.constants.items()}
        )
        loss = self.step(part, part_velocity, received, batch, lr, trained)
        for whole, changed in zip(
            [*weights.values(), *velocity], [*part.values(), *part_velocity], strict=True
        ):
            copy_([whole[place] for place in places], list(changed))
        return loss


EXECUTORS = {executor.name: executor for executor in (Sequential, Stacked, Plain)}


def available(device: torch.device) -> list[str]:
    """Return the names of the executors that a device supports."""
    return [
        *EXECUTORS,
        *(f"{name}+graph" for name in ("sequential", "stacked") if device.type == "cuda"),
    ]


def create(
    name: str,
    algorithm: FedAvg,
    config: RunConfig,
    data: FederatedData,
    flops: int,
    recordings: dict | None = None,
) -> Executor:
    """Create the named executor; `auto` picks one for a network of `flops` operations per image.
    `recordings`: see `Step`."""
    if name == "auto":
        name = pick(config, flops, data.device)
    valid = available(data.device)
    if name not in valid:
        raise UserError(
            f"executor: expected on {data.device.type} one of auto, {', '.join(valid)} (got {name})"
        )
    name = own_modules.usable_executor(name, algorithm, config, data)
    kind, _, graph = name.partition("+")
    executor = EXECUTORS[kind](algorithm, config, data, captured=bool(graph), recordings=recordings)
    executor.name = name
    return executor


def uses_worker_pool(name: str, device: torch.device) -> bool:
    """Return whether an executor's clients can be distributed over several cores: only those of
    `sequential` on a processor."""
    return device.type == "cpu" and name == Sequential.name


def pick(config: RunConfig, flops: int, device: torch.device) -> str:
    """Return the faster executor for a network of `flops` operations per image.

    Stacking saves calls but multiplies less efficiently: on a processor it wins if steps are small
    and the cohort is not (`benchmarks/rule.py` measures it). On CUDA a step is a graph, and
    stacking saves launches: it wins from two clients on, unless arithmetic hides the launches
    (estimated, not measured: no GPU has run it)."""
    operations = config.batch_size * flops
    if device.type == "cuda":
        return (
            "stacked+graph"
            if operations <= LAUNCH_BOUND_STEP and config.clients_per_round > 1
            else "sequential+graph"
        )
    return (
        "stacked"
        if operations <= SMALL_STEP and config.clients_per_round >= MIN_STACKED_CLIENTS
        else "sequential"
    )


def _group_by_batch_size(clients: list[ClientBatches], step: int) -> list[list[int]]:
    """Group the places of the clients that have a batch left by its size."""
    sizes = [
        (client.sizes[step], place)
        for place, client in enumerate(clients)
        if step < len(client.sizes)
    ]
    return [[place for _, place in group] for _, group in groupby(sorted(sizes), key=itemgetter(0))]
