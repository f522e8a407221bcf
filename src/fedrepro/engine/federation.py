"""The round loop: sample clients, train them, aggregate, evaluate, record."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fedrepro import algorithms, models, rng
from fedrepro.algorithms.base import Weights
from fedrepro.config import RunConfig
from fedrepro.datasets import Dataset
from fedrepro.engine import executors, precision
from fedrepro.engine.data import FederatedData
from fedrepro.engine.evaluation import chunk, evaluate, flops
from fedrepro.errors import UserError
from fedrepro.partitions import Partition

COLUMNS = (
    "round",
    "test_accuracy",  # of the global model after the round, on the whole test set, 0..1
    "test_loss",  # its mean cross entropy, nats
    "train_loss",  # local objective, mean over the participants' steps
    "initial_accuracy",  # mean over participants: the model they received, on their own test part
    "personal_accuracy",  # the same after their local training
    "bytes_down",  # sent to all participants of the round
    "bytes_up",
    "lr",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class State:
    """All that a round depends on, beside the config: with it training goes on as if it had never stopped."""

    round: int
    weights: Weights
    server: Weights
    diverged: bool = False


@dataclass
class _Seen:
    """Of the participants of a round, in their order."""

    losses: list[torch.Tensor] = field(default_factory=list)
    initial: list[float] = field(default_factory=list)  # accuracies
    personal: list[float] = field(default_factory=list)
    bytes_up: int = 0


class Federation:
    """One run in memory. `start` gives the state before round 1, `advance` the next."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, partition: Partition, device: torch.device, executor: str = "auto"
    ) -> None:
        if config.clients_per_round > partition.clients:
            raise UserError(
                f"clients_per_round: at most the {partition.clients} clients of the partition (got {config.clients_per_round})"
            )
        precision.set_products(config.precision, device)
        self.config, self.clients = config, partition.clients
        self.data = FederatedData(config, dataset, partition, device)
        net = models.build(
            config.model, tuple(dataset.train_x.shape[1:]), dataset.classes, rng.generator(config.seed, "weights")
        )
        self.algorithm = algorithms.create(
            config.algorithm,
            net.to(device, precision.dtype(config.precision)),
            rng.generator(config.seed, "algorithm"),
        )
        self.device = device
        self.flops = flops(self.algorithm, self.data.train_x.shape[1:])
        self.chunk = chunk(self.flops, device)
        self.executor = executors.create(executor, self.algorithm, config, self.data, self.flops)

    def place(self, tensors: Weights) -> Weights:
        """On the device, image-shaped weights with their channels last: convolution and pooling run up to twice as fast so."""
        layout = {True: torch.channels_last, False: torch.contiguous_format}
        return {name: tensor.to(self.device, memory_format=layout[tensor.dim() == 4]) for name, tensor in tensors.items()}

    def start(self) -> tuple[State, Row]:
        """The state of round 0 and its row: the untrained model's test accuracy."""
        weights = self.place({name: tensor.detach().clone() for name, tensor in self.algorithm.net.state_dict().items()})
        state = State(0, weights, self.place(self.algorithm.start(weights)))
        row = dict.fromkeys(COLUMNS) | {"round": 0, "bytes_down": 0, "bytes_up": 0} | self._tested(state)
        return state, row

    def advance(self, state: State) -> tuple[State, Row]:
        """One round. A loss or a weight that is not finite ends the run: the state says so and keeps the last good weights."""
        round, config = state.round + 1, self.config
        cohort = self.cohort(round)
        received = self.algorithm.broadcast(state.weights, state.server)
        measured = round % config.evaluate_every == 0 or round == config.rounds
        seen = _Seen()
        uploads = self._uploads(received, cohort, round, measured, seen)
        new, server = self.algorithm.aggregate(state.weights, state.server, uploads, self._shares(cohort, round))
        row = dict.fromkeys(COLUMNS) | {
            "round": round,
            "train_loss": torch.stack(seen.losses).mean().item(),
            "initial_accuracy": _mean(seen.initial),
            "personal_accuracy": _mean(seen.personal),
            "bytes_down": len(cohort) * size(received),
            "bytes_up": seen.bytes_up,
            "lr": self.lr(round),
        }
        finite = torch.stack([tensor.isfinite().all() for tensor in (*new.values(), *server.values())])
        if not math.isfinite(row["train_loss"]) or not finite.all():
            return State(round, state.weights, state.server, diverged=True), row
        state = State(round, new, server)
        return state, row | (self._tested(state) if measured else {})

    def _uploads(self, received: Weights, cohort: list[int], round: int, measured: bool, seen: "_Seen") -> Iterator[Weights]:
        """Train the cohort; what each client returns, as soon as it is there. What is measured on the way goes into `seen`."""
        trained = self.executor.train(received, cohort, round, self.lr(round))
        for client, (weights, loss) in zip(cohort, trained, strict=True):
            seen.losses.append(loss)
            if measured:
                part = self.data.test_part(client, round)
                seen.initial.append(evaluate(self.algorithm, received, *part, self.chunk)[0])
                seen.personal.append(evaluate(self.algorithm, self.algorithm.personal(weights, received), *part, self.chunk)[0])
            upload = self.algorithm.upload(weights)
            seen.bytes_up += size(upload)
            yield upload

    def cohort(self, round: int) -> list[int]:
        """The participants of a round, in the order of their numbers: a function of the seed and the round alone."""
        order = torch.randperm(self.clients, generator=rng.generator(self.config.seed, "cohort", round))
        return sorted(order[: self.config.clients_per_round].tolist())

    def lr(self, round: int) -> float:
        """The learning rate of a round: multiplied by `lr_decay` after every round while it is above `lr_floor`."""
        rate = self.config.lr
        for _ in range(round - 1):
            if rate <= self.config.lr_floor or self.config.lr_decay == 1:
                break
            rate *= self.config.lr_decay
        return rate

    def _shares(self, cohort: list[int], round: int) -> list[float]:
        if self.config.weighting == "uniform":
            return [1 / len(cohort)] * len(cohort)
        sizes = [len(self.data.partition.train_of(client, round)) for client in cohort]
        return [size / sum(sizes) for size in sizes]

    def _tested(self, state: State) -> Row:
        weights = self.algorithm.tested(state.weights, state.server)
        accuracy, loss = evaluate(self.algorithm, weights, self.data.test_x, self.data.test_y, self.chunk)
        return {"test_accuracy": accuracy, "test_loss": loss}


def size(message: Weights) -> int:
    """Bytes of all tensors in a message."""
    return sum(tensor.numel() * tensor.element_size() for tensor in message.values())


def _mean(values: list[float]) -> float | None:
    """Mean over the clients that have test images; None where none has or nothing was measured."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None
