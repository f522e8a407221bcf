"""Execution of one round: local training, measures at clients, bytes and losses."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, Client, ClientUpdate, Weights, weighted_mean
from fedrepro.core import rng
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.training.batches.client_batches import ClientBatches, batch_sizes
from fedrepro.training.client_task import ClientResult, ClientTask, Values
from fedrepro.training.context import FederationContext
from fedrepro.training.evaluation import evaluate
from fedrepro.training.state import MOMENTUM, OWN, ClientState, State, method_part, named, part

OTHERS = " of others"  # purpose of random draws of clients that train only to be measured


class LocalTraining(NamedTuple):
    """A participant's local training, for observers of a round."""

    client: Client
    received: Weights
    weights: Weights


class RoundExecution:
    """A running round, the `RoundRunner` of its method. `measures` are evaluated in this round; `watch` is called with every
    participant's local training."""

    def __init__(
        self,
        context: FederationContext,
        state: State,
        measures: Mapping[str, Measure],
        watch: Callable[[LocalTraining], None] | None = None,
    ) -> None:
        self.context, self.state, self.number, self.watch = context, state, state.round + 1, watch
        self.clients, self.lr = tuple(context.cohort(self.number)), context.lr(self.number)
        self.epochs = context.config.local_epochs
        self.client_measures = {name: measure for name, measure in measures.items() if measure.over}
        self.phases, self.down, self.up = 0, 0, 0
        self.losses: list[Tensor] = []
        self.client_values: dict[str, dict[int, float]] = {name: {} for name in self.client_measures}  # by measure and client
        self.client_states: dict[int, ClientState] = {}

    def train(
        self,
        received: Weights,
        clients: Iterable[int] | None = None,
        *,
        lr: float | None = None,
        epochs: int | None = None,
        trained: Iterable[str] | None = None,
        starts: Mapping[int, Weights] | None = None,
        uploaded: Iterable[str] | None = None,
    ) -> Iterator[ClientUpdate]:
        """Train clients as `RoundRunner.train` says. Received weights are measured in the first phase, trained ones in each."""
        context, phase = self.context, f"/{self.phases}" * (self.phases > 0)
        own = context.algorithm.own
        received = {name: tensor for name, tensor in received.items() if name not in own}
        uploaded = None if uploaded is None else frozenset(uploaded)
        numbers = self.clients if clients is None else tuple(clients)
        options = {"lr": lr, "trained": trained and tuple(trained), "epochs": epochs, "starts": starts}
        options = {name: value for name, value in options.items() if value is not None}
        task = self.create_task(received, phase=phase, measures=tuple(self.client_measures), first=not phase, **options)
        self.phases += 1
        self.down += len(numbers) * message_bytes(received)
        members = [self.client(number, task) for number in numbers]
        shares = context.shares([client.images for client in members])
        for client, share, result in zip(members, shares, self._perform_task(task, numbers), strict=True):
            assert result.loss is not None  # every client of this task trains
            self.losses.append(result.loss)
            self._record(client.number, result.values)
            sent = result.message
            self.up += message_bytes(sent if uploaded is None else {name: sent[name] for name in sent if name in uploaded})
            if result.state:
                state = ClientState(self.number, self._merge_state(client.number, result.state))
                self.client_states[client.number] = context.client_store.keep(client.number, state)
            yield ClientUpdate(client, share, result.message)
        if {*received, *own} >= set(context.algorithm.names):  # other phases start from weights that only participants have
            self._measure_others(received, first=not phase)

    def _merge_state(self, number: int, state: Weights) -> Weights:
        """Return a client's new state, completed by the momentum of weights that this phase did not train, and by the old
        state of its method if that keeps nothing new."""
        before = self.client_state(number)
        momentum = named(MOMENTUM, part(MOMENTUM, before))
        return momentum | ({} if method_part(state) else method_part(before)) | state

    def _perform_task(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """Perform a task in the worker pool, if there is one; a round that is watched runs in this process."""
        pool = None if self.watch or len(clients) < 2 else self.context.worker_pool
        return pool.perform(self, task, clients) if pool else self.perform(task, clients)

    def perform(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """Yield these clients' results, in their order; the executor trains them one by one or as a stack."""
        context, members = self.context, [self.client(number, task) for number in clients]
        trained: Iterable = ((None, None, {}) for _ in members)
        if task.trains:
            batches = (self.client_batches(client, task) for client in members)
            trained = context.executor.train(batches, task.lr, task.trained)
        for client, (weights, loss, velocity) in zip(members, trained, strict=True):
            received = self.received_by(client.number, task)
            values = self._measure_client(client.number, task, received, weights)
            if not task.sends:
                yield ClientResult(loss, values)
                continue
            assert weights is not None  # who sends has trained
            if self.watch:
                self.watch(LocalTraining(client, received, weights))
            message, state = context.algorithm.finish(weights, received, client)
            own = {name: weights[name].clone() for name in context.algorithm.own}
            message = {name: tensor for name, tensor in message.items() if name not in own}
            yield ClientResult(loss, values, message, state | named(MOMENTUM, velocity) | named(OWN, own))

    def count_bytes(self, down: int = 0, up: int = 0) -> None:
        self.down, self.up = self.down + down, self.up + up

    def evaluate(self, weights: Weights, state: Weights) -> dict[str, float]:
        return self.context.evaluate_global(weights, state, MEASURES)

    def row(self) -> dict[str, float | int | None]:
        """Return the part of the round's row that comes from clients: their measures, loss and bytes."""
        loss = torch.stack(self.losses).mean().item() if self.losses else None
        means = {name: _mean(list(values.values())) for name, values in self.client_values.items()}
        return means | {"train_loss": loss, "bytes_down": self.down, "bytes_up": self.up}

    def client_state(self, client: int) -> Weights:
        """Return the state that a client kept when it took part last; {} before."""
        state = self.client_states.get(client) or self.state.clients.get(client)
        return state.tensors if state else {}

    def received_by(self, number: int, task: ClientTask) -> Weights:
        """Return what a client starts from: the weights that it received and those that stay with it."""
        return task.received | self.context.initial_own | part(OWN, self.client_state(number))

    def mean_own_weights(self) -> Weights:
        """Return the mean, weighted by shares, of the own weights of the participants; {} if the method has none."""
        initial, members = self.context.initial_own, [self.client(number) for number in self.clients]
        if not initial:
            return {}
        shares = self.context.shares([client.images for client in members])
        own = (initial | part(OWN, self.client_state(client.number)) for client in members)
        return weighted_mean(initial, (ClientUpdate(*update) for update in zip(members, shares, own, strict=True)))

    def create_task(self, received: Weights, **options: Any) -> ClientTask:
        """Create a task with the round's learning rate and trained weights; `options` are other fields of it."""
        return ClientTask(received, self.lr, self.context.algorithm.trained)._replace(**options)

    def client(self, number: int, task: ClientTask | None = None) -> Client:
        """Return a client as its method sees it in this round."""
        context, round, task = self.context, self.number, task or self.create_task({})
        config, data = context.with_epochs(task.epochs), context.data
        index = data.train_index(number, round)
        # as large as the server's, so that an estimate that depends on their size has one scale on either side
        batch_size = config.proxy.batch_size if config.proxy else config.batch_size

        def batches() -> Iterator[Batch]:
            def draw(purpose: str) -> torch.Generator:
                return rng.generator(config.seed, f"{purpose} looked at{task.phase}", round, number)

            order = torch.randperm(len(index), generator=draw("batches")).to(index.device)
            changes = draw("augment") if config.augment else None
            for rows in index[order].split(batch_size):
                yield Batch(data.images(rows, number, changes), data.train_y[rows])

        return Client(
            number=number,
            images=len(index),
            steps=len(batch_sizes(config, len(index))),
            lr=task.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            state=method_part(self.client_state(number)),
            classes=lambda: data.counts(index),
            estimation_batches=batches,
        )

    def client_batches(self, client: Client, task: ClientTask) -> ClientBatches:
        """Prepare a client's local training: its batches, the method's constants, and the weights and momentum at its start."""
        context, received = self.context, self.received_by(client.number, task)
        with torch.no_grad():
            constants = context.algorithm.prepare(received, client)
        start = task.starts.get(client.number)
        start = context.to_device(start) if start else received
        return ClientBatches(
            context.algorithm,
            context.with_epochs(task.epochs),
            context.data,
            received,
            client.number,
            self.number,
            constants=constants,
            phase=task.phase,
            start=start,
            velocity=part(MOMENTUM, self.client_state(client.number)),
        )

    def _measure_client(self, client: int, task: ClientTask, received: Weights, weights: Weights | None) -> Values:
        """Evaluate the task's measures on a client's own test or validation images, of the weights that it starts from and,
        unless None, of `weights` after its training."""
        context, values = self.context, Values()
        models = {"received": received} if task.first else {}
        if weights is not None:
            models["trained"] = context.algorithm.personalised_weights(weights, received)
        sets = {"test": context.data.test_part, "validation": context.data.validation_part}
        for (model, evaluated), (images, part_of) in itertools.product(models.items(), sets.items()):
            chosen = {name: MEASURES[name] for name in task.measures}
            chosen = {name: each for name, each in chosen.items() if (each.model, each.images) == (model, images)}
            if chosen:
                values |= evaluate(context.algorithm, chosen, evaluated, *part_of(client, self.number), context.chunk)
        return values

    def _record(self, client: int, values: Values) -> None:
        for name, value in values.items():
            self.client_values[name][client] = value

    def _measure_others(self, received: Weights, first: bool) -> None:
        """For measures over all clients, also evaluate the others; they train only if a measure is of trained weights."""
        measures = {name: measure for name, measure in self.client_measures.items() if measure.over == "clients"}
        others = [number for number in range(self.context.clients) if number not in self.clients] if measures else []
        trains = any(measure.model == "trained" for measure in measures.values())
        options = {"measures": tuple(measures), "first": first, "trains": trains, "sends": False}
        task = self.create_task(received, phase=OTHERS, **options)
        for client, result in zip(others, self._perform_task(task, others), strict=True):
            self._record(client, result.values)


def perform_task(context: FederationContext, request: Mapping[str, Any]) -> list[ClientResult]:
    """Perform a worker's request, which has the round's number, clients and their states, and the task."""
    before = request["round"] - 1
    states = {client: ClientState(before, tensors) for client, tensors in request["states"].items()}
    round = RoundExecution(context, State(before, {}, {}, states), {})
    return list(round.perform(ClientTask(*request["task"]), request["clients"]))


def message_bytes(message: Weights) -> int:
    """Return the bytes of all tensors in a message."""
    return sum(tensor.numel() * tensor.element_size() for tensor in message.values())


def _mean(values: list[float]) -> float | None:
    """Return the mean over the clients that have such images; None without any."""
    valid = [value for value in values if not math.isnan(value)]
    return sum(valid) / len(valid) if valid else None
