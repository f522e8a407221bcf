"""Execution of one round: local training, measures at clients, bytes and losses."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, Client, ClientUpdate, Diverged, Weights, weighted_mean
from fedrepro.core import rng
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.runs.run import Row
from fedrepro.training.batches.client_batches import ClientBatches, batch_sizes
from fedrepro.training.evaluation import evaluate
from fedrepro.training.federation import Federation, columns
from fedrepro.training.state import MOMENTUM, OWN, ClientState, State, method_part, named, part
from fedrepro.training.worker_pool import ClientResult, ClientTask, Values

OTHERS = " of others"  # purpose of random draws of clients that train only to be measured


class LocalTraining(NamedTuple):
    """A participant's local training, for observers of a round."""

    client: Client
    received: Weights
    weights: Weights


class RoundExecution:
    """A running round, the `RoundRunner` of its method. `measures` are evaluated in this round;
    `watch` is called with every participant's local training."""

    def __init__(
        self,
        federation: Federation,
        state: State,
        measures: Mapping[str, Measure],
        watch: Callable[[LocalTraining], None] | None = None,
    ) -> None:
        self.federation, self.state, self.number, self.watch = (
            federation,
            state,
            state.round + 1,
            watch,
        )
        self.clients, self.lr = tuple(federation.cohort(self.number)), federation.lr(self.number)
        self.epochs = federation.config.local_epochs
        self.client_measures = {name: measure for name, measure in measures.items() if measure.over}
        self.phases, self.down, self.up = 0, 0, 0
        self.losses: list[Tensor] = []
        # by measure and client
        self.client_values: dict[str, dict[int, float]] = {
            name: {} for name in self.client_measures
        }
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
        """Train clients as `RoundRunner.train` says. Received weights are measured in the first
        phase, trained ones in each."""
        federation, phase = self.federation, f"/{self.phases}" * (self.phases > 0)
        own = federation.algorithm.own
        received = {name: tensor for name, tensor in received.items() if name not in own}
        uploaded = None if uploaded is None else frozenset(uploaded)
        numbers = self.clients if clients is None else tuple(clients)
        options = {
            "lr": lr,
            "trained": trained and tuple(trained),
            "epochs": epochs,
            "starts": starts,
        }
        options = {name: value for name, value in options.items() if value is not None}
        task = self.create_task(
            received, phase=phase, measures=tuple(self.client_measures), first=not phase, **options
        )
        self.phases += 1
        self.down += len(numbers) * message_bytes(received)
        members = [self.client(number, task) for number in numbers]
        shares = federation.shares([client.images for client in members])
        for client, share, result in zip(
            members, shares, self._perform_task(task, numbers), strict=True
        ):
            assert result.loss is not None  # every client of this task trains
            self.losses.append(result.loss)
            self._record(client.number, result.values)
            sent = result.message
            self.up += message_bytes(
                sent
                if uploaded is None
                else {name: sent[name] for name in sent if name in uploaded}
            )
            if result.state:
                state = ClientState(self.number, self._merge_state(client.number, result.state))
                self.client_states[client.number] = federation.client_store.keep(
                    client.number, state
                )
            yield ClientUpdate(client, share, result.message)
        # other phases start from weights that only participants have
        if {*received, *own} >= set(federation.algorithm.names):
            self._measure_others(received, first=not phase)

    def _merge_state(self, number: int, state: Weights) -> Weights:
        """Return a client's new state, completed by the momentum of weights that this phase did not
        train, and by the old state of its method if that keeps nothing new."""
        before = self.client_state(number)
        momentum = named(MOMENTUM, part(MOMENTUM, before))
        return momentum | ({} if method_part(state) else method_part(before)) | state

    def _perform_task(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """Perform a task in the worker pool, if there is one; a round that is watched runs in this
        process."""
        pool = None if self.watch or len(clients) < 2 else self.federation.worker_pool
        if pool is None:
            return self.perform(task, clients)
        return pool.perform(self.number, task, clients, self.client_state, self.perform)

    def perform(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """Yield these clients' results, in their order; the executor trains them one by one or as a
        stack."""
        federation, members = self.federation, [self.client(number, task) for number in clients]
        trained: Iterable = ((None, None, {}) for _ in members)
        if task.trains:
            batches = (self.client_batches(client, task) for client in members)
            trained = federation.executor.train(batches, task.lr, task.trained)
        for client, (weights, loss, velocity) in zip(members, trained, strict=True):
            received = self.received_by(client.number, task)
            values = self._measure_client(client.number, task, received, weights)
            if not task.sends:
                yield ClientResult(loss, values)
                continue
            assert weights is not None  # who sends has trained
            if self.watch:
                self.watch(LocalTraining(client, received, weights))
            message, state = federation.algorithm.finish(weights, received, client)
            own = {name: weights[name].clone() for name in federation.algorithm.own}
            message = {name: tensor for name, tensor in message.items() if name not in own}
            yield ClientResult(
                loss, values, message, state | named(MOMENTUM, velocity) | named(OWN, own)
            )

    def count_bytes(self, down: int = 0, up: int = 0) -> None:
        self.down, self.up = self.down + down, self.up + up

    def row(self) -> dict[str, float | int | None]:
        """Return the part of the round's row that comes from clients: their measures, loss and
        bytes."""
        loss = torch.stack(self.losses).mean().item() if self.losses else None
        means = {name: _mean(list(values.values())) for name, values in self.client_values.items()}
        return means | {"train_loss": loss, "bytes_down": self.down, "bytes_up": self.up}

    def client_state(self, client: int) -> Weights:
        """Return the state that a client kept when it took part last; {} before."""
        state = self.client_states.get(client) or self.state.clients.get(client)
        return state.tensors if state else {}

    def received_by(self, number: int, task: ClientTask) -> Weights:
        """Return what a client starts from: the weights that it received and those that stay with
        it."""
        return task.received | self.federation.initial_own | part(OWN, self.client_state(number))

    def mean_own_weights(self) -> Weights:
        """Return the mean, weighted by shares, of the own weights of the participants; {} if the
        method has none."""
        initial, members = (
            self.federation.initial_own,
            [self.client(number) for number in self.clients],
        )
        if not initial:
            return {}
        shares = self.federation.shares([client.images for client in members])
        own = (initial | part(OWN, self.client_state(client.number)) for client in members)
        return weighted_mean(
            initial, (ClientUpdate(*update) for update in zip(members, shares, own, strict=True))
        )

    def create_task(self, received: Weights, **options: Any) -> ClientTask:
        """Create a task with the round's learning rate and trained weights; `options` are other
        fields of it."""
        return ClientTask(received, self.lr, self.federation.algorithm.trained)._replace(**options)

    def client(self, number: int, task: ClientTask | None = None) -> Client:
        """Return a client as its method sees it in this round."""
        federation, round, task = self.federation, self.number, task or self.create_task({})
        config, data = federation.with_epochs(task.epochs), federation.data
        index = data.train_index(number, round)
        # as large as the server's, so that an estimate that depends on their size has one scale on
        # either side
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
        """Prepare a client's local training: its batches, the method's constants, and the weights
        and momentum at its start."""
        federation, received = self.federation, self.received_by(client.number, task)
        with torch.no_grad():
            constants = federation.algorithm.prepare(received, client)
        start = task.starts.get(client.number)
        start = federation.to_device(start) if start else received
        return ClientBatches(
            federation.algorithm,
            federation.with_epochs(task.epochs),
            federation.data,
            received,
            client.number,
            self.number,
            constants=constants,
            phase=task.phase,
            start=start,
            velocity=part(MOMENTUM, self.client_state(client.number)),
        )

    def _measure_client(
        self, client: int, task: ClientTask, received: Weights, weights: Weights | None
    ) -> Values:
        """Evaluate the task's measures on a client's own test or validation images, of the weights
        that it starts from and, unless None, of `weights` after its training."""
        federation, values = self.federation, Values()
        models = {"received": received} if task.first else {}
        if weights is not None:
            models["trained"] = federation.algorithm.personalised_weights(weights, received)
        sets = {"test": federation.data.test_part, "validation": federation.data.validation_part}
        for (model, evaluated), (images, part_of) in itertools.product(
            models.items(), sets.items()
        ):
            chosen = {name: MEASURES[name] for name in task.measures}
            chosen = {
                name: each
                for name, each in chosen.items()
                if (each.model, each.images) == (model, images)
            }
            if chosen:
                values |= evaluate(
                    federation.algorithm,
                    chosen,
                    evaluated,
                    *part_of(client, self.number),
                    federation.chunk,
                )
        return values

    def _record(self, client: int, values: Values) -> None:
        for name, value in values.items():
            self.client_values[name][client] = value

    def _measure_others(self, received: Weights, first: bool) -> None:
        """For measures over all clients, also evaluate the others; they train only if a measure is
        of trained weights."""
        measures = {
            name: measure
            for name, measure in self.client_measures.items()
            if measure.over == "clients"
        }
        others = (
            [number for number in range(self.federation.clients) if number not in self.clients]
            if measures
            else []
        )
        trains = any(measure.model == "trained" for measure in measures.values())
        options = {"measures": tuple(measures), "first": first, "trains": trains, "sends": False}
        task = self.create_task(received, phase=OTHERS, **options)
        for client, result in zip(others, self._perform_task(task, others), strict=True):
            self._record(client, result.values)


def run_round(
    federation: Federation, state: State, watch: Callable[[LocalTraining], None] | None = None
) -> tuple[State, Row]:
    """Run the round after `state`; returns the state after it and its row.

    If a loss or a weight is not finite, the new state is marked as diverged and keeps the last good
    weights. `watch` is called with every participant's local training; a round that is run again
    shows the same to the bit."""
    number, config = state.round + 1, federation.config
    due = number % config.evaluate_every == 0 or number == config.rounds
    round = RoundExecution(federation, state, federation.measures if due else {}, watch)
    server = federation.server_view(state)
    try:
        weights, server_state = map(
            federation.to_device, federation.algorithm.round(state.weights, server, round)
        )
        weights |= federation.to_device(round.mean_own_weights())
        tensors = (*weights.values(), *server_state.values())
        finite = bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())
    except Diverged:
        finite = False
    row = (
        dict.fromkeys(columns(config))
        | {"round": number, "lr": federation.lr(number)}
        | round.row()
    )
    if not (row["train_loss"] is None or math.isfinite(row["train_loss"])) or not finite:
        return State(number, state.weights, state.server, state.clients, diverged=True), row
    new = State(number, weights, server_state, state.clients | round.client_states)
    state = federation.state_to_device(new)  # as if it had been loaded, in memory layout too
    return state, row | (
        federation.evaluate_global(state.weights, state.server, federation.measures) if due else {}
    )


def perform_task(federation: Federation, request: Mapping[str, Any]) -> list[ClientResult]:
    """Perform a worker's request, which has the round's number, clients and their states, and the
    task."""
    before = request["round"] - 1
    states = {client: ClientState(before, tensors) for client, tensors in request["states"].items()}
    round = RoundExecution(federation, State(before, {}, {}, states), {})
    return list(round.perform(ClientTask(*request["task"]), request["clients"]))


def message_bytes(message: Weights) -> int:
    """Return the bytes of all tensors in a message."""
    return sum(tensor.numel() * tensor.element_size() for tensor in message.values())


def _mean(values: list[float]) -> float | None:
    """Return the mean over the clients that have such images; None without any."""
    valid = [value for value in values if not math.isnan(value)]
    return sum(valid) / len(valid) if valid else None
