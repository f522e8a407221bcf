"""One round at work: the pieces that a method's `round` is made of, and what is noted while they run."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, Client, ClientUpdate, Weights
from fedrepro.core import rng
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.training.batches.client_batches import ClientBatches, batch_sizes
from fedrepro.training.client_task import ClientResult, ClientTask, Values
from fedrepro.training.context import FederationContext
from fedrepro.training.evaluation import evaluate
from fedrepro.training.state import ClientState, State

MOMENTUM = "momentum/"  # begins the names of what a client keeps of it, among those of its method's state
OTHERS = " of others"  # draws of clients that train only to be measured are not those of a participant


class LocalTraining(NamedTuple):
    """A participant's local training, for who watches a round."""

    client: Client
    received: Weights
    weights: Weights


class RoundExecution:
    """`measures`: those that are due in this round. `watch` is shown every participant after its local training."""

    def __init__(
        self,
        context: FederationContext,
        state: State,
        measures: dict[str, Measure],
        watch: Callable[[LocalTraining], None] | None = None,
    ) -> None:
        self.context, self.state, self.number, self.watch = context, state, state.round + 1, watch
        self.clients, self.lr = tuple(context.cohort(self.number)), context.lr(self.number)
        self.epochs = context.config.local_epochs
        self.client_measures = {name: measure for name, measure in measures.items() if measure.over}
        self.phases, self.down, self.up = 0, 0, 0
        self.losses: list[Tensor] = []
        self.client_values: dict[str, dict[int, float]] = {
            name: {} for name in self.client_measures
        }  # measure -> client -> value
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
        """As `algorithms.base.Work.train`. What was received is measured in the first phase, what was trained in every one."""
        site, phase = self.context, f"/{self.phases}" * (self.phases > 0)
        uploaded = None if uploaded is None else frozenset(uploaded)
        numbers = self.clients if clients is None else tuple(clients)
        chosen = {"lr": lr, "trained": trained and tuple(trained), "epochs": epochs, "starts": starts}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        asked = self.create_task(received, phase=phase, measures=tuple(self.client_measures), first=not phase, **chosen)
        self.phases += 1
        self.down += len(numbers) * message_bytes(received)
        members = [self.client(number, asked) for number in numbers]
        shares = site.shares([client.images for client in members])
        for client, share, ended in zip(members, shares, self._perform_task(asked, numbers), strict=True):
            self.losses.append(ended.loss)
            self._record(client.number, ended.values)
            self.up += message_bytes(
                {name: part for name, part in ended.message.items() if uploaded is None or name in uploaded}
            )
            if ended.state:
                self.client_states[client.number] = ClientState(self.number, self._merge_state(client.number, ended.state))
            yield ClientUpdate(client, share, ended.message)
        if received.keys() >= set(site.algorithm.names):  # else it goes on with what only participants have
            self._measure_others(received, first=not phase)

    def _merge_state(self, number: int, state: Weights) -> Weights:
        """What a client keeps now, with the momentum of weights that this phase did not train, and with what its method kept
        before where it keeps nothing new."""
        if not self.context.config.keep_momentum:
            return state
        own = any(not name.startswith(MOMENTUM) for name in state)
        before = self.client_state(number).items()
        return {name: tensor for name, tensor in before if name.startswith(MOMENTUM) or not own} | state

    def _perform_task(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """`perform`, shared out where there are helpers; who watches a round does so here."""
        crew = None if self.watch or len(clients) < 2 else self.context.worker_pool
        return crew.perform(self, task, clients) if crew else self.perform(task, clients)

    def perform(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """What these clients do, one after the other or, as the executor has it, at once."""
        site, members = self.context, [self.client(number, task) for number in clients]
        ended: Iterable = ((None, None, {}) for _ in members)
        if task.trains:
            feeds = (self.client_batches(client, task) for client in members)
            ended = site.executor.train(task.received, feeds, task.lr, task.trained)
        for client, (weights, loss, velocity) in zip(members, ended, strict=True):
            values = self._measure_client(client.number, task, weights)
            if not task.sends:
                yield ClientResult(loss, values)
                continue
            if self.watch:
                self.watch(LocalTraining(client, task.received, weights))
            message, kept = site.algorithm.finish(weights, task.received, client)
            yield ClientResult(loss, values, message, kept | {MOMENTUM + name: tensor for name, tensor in velocity.items()})

    def count_bytes(self, down: int = 0, up: int = 0) -> None:
        self.down, self.up = self.down + down, self.up + up

    def evaluate(self, weights: Weights, state: Weights) -> dict[str, float]:
        return self.context.evaluate_global(weights, state, MEASURES)

    def row(self) -> dict[str, float | int | None]:
        """What the round's row says of the clients."""
        loss = torch.stack(self.losses).mean().item() if self.losses else None
        means = {name: _mean(list(values.values())) for name, values in self.client_values.items()}
        return means | {"train_loss": loss, "bytes_down": self.down, "bytes_up": self.up}

    def client_state(self, number: int) -> Weights:
        """What a client kept when it took part last."""
        kept = self.client_states.get(number) or self.state.clients.get(number)
        return kept.tensors if kept else {}

    def create_task(self, received: Weights, **chosen: Any) -> ClientTask:
        """What a round asks of its clients, but for what is chosen."""
        return ClientTask(received, self.lr, self.context.algorithm.trained)._replace(**chosen)

    def client(self, number: int, asked: ClientTask | None = None) -> Client:
        """A client as its method sees it in this round."""
        site, round, asked = self.context, self.number, asked or self.create_task({})
        config, data = site.with_epochs(asked.epochs), site.data
        index = data.train_index(number, round)
        # as large as the server's, so that an estimate that depends on their size has one scale on either side
        together = config.proxy.batch_size if config.proxy else config.batch_size
        state = {name: kept for name, kept in self.client_state(number).items() if not name.startswith(MOMENTUM)}

        def batches() -> Iterator[Batch]:
            def draw(purpose: str) -> torch.Generator:
                return rng.generator(config.seed, f"{purpose} looked at{asked.phase}", round, number)

            order = torch.randperm(len(index), generator=draw("batches")).to(index.device)
            changes = draw("augment") if config.augment else None
            for rows in index[order].split(together):
                yield Batch(data.images(rows, number, changes), data.train_y[rows])

        return Client(
            number=number,
            images=len(index),
            steps=len(batch_sizes(config, len(index))),
            lr=asked.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            state=state,
            classes=lambda: data.counts(index),
            batches=batches,
        )

    def client_batches(self, client: Client, task: ClientTask) -> ClientBatches:
        """The batches of its local training, after `prepare`, and where that starts."""
        site, received = self.context, task.received
        with torch.no_grad():
            own = site.algorithm.prepare(received, client)
        start = task.starts.get(client.number)
        start = site.to_device(start) if start else received
        config, before = site.with_epochs(task.epochs), self.client_state(client.number)
        velocity = {name.removeprefix(MOMENTUM): kept for name, kept in before.items() if name.startswith(MOMENTUM)}
        return ClientBatches(
            site.algorithm, config, site.data, received, client.number, self.number, own, task.phase, start, velocity
        )

    def _measure_client(self, client: int, asked: ClientTask, weights: Weights | None) -> Values:
        """Own-test measures of one client, each model's at once; `weights` after its training, None where it did not train."""
        site, received, found = self.context, asked.received, {}
        models = {"received": received} if asked.first else {}
        if weights is not None:
            models["trained"] = site.algorithm.personalised_weights(weights, received)
        for model, tested in models.items():
            if wanted := {name: MEASURES[name] for name in asked.measures if MEASURES[name].model == model}:
                found |= evaluate(site.algorithm, wanted, tested, *site.data.test_part(client, self.number), site.chunk)
        return found

    def _record(self, client: int, values: Values) -> None:
        for name, value in values.items():
            self.client_values[name][client] = value

    def _measure_others(self, received: Weights, first: bool) -> None:
        """The same of the clients that do not take part, where a measure is over all of them: they train to be measured."""
        measures = {name: measure for name, measure in self.client_measures.items() if measure.over == "clients"}
        others = [number for number in range(self.context.clients) if number not in self.clients] if measures else []
        trains = any(measure.model == "trained" for measure in measures.values())
        chosen = {"measures": tuple(measures), "first": first, "trains": trains, "sends": False}
        asked = self.create_task(received, phase=OTHERS, **chosen)
        for client, ended in zip(others, self._perform_task(asked, others), strict=True):
            self._record(client, ended.values)


def perform_task(context: FederationContext, request: Mapping[str, Any]) -> list[ClientResult]:
    """What some clients do in a round of which nothing else is known here: what a crew asks of its helper."""
    before = request["round"] - 1
    kept = {client: ClientState(before, tensors) for client, tensors in request["states"].items()}
    round = RoundExecution(context, State(before, {}, {}, kept), {})
    return list(round.perform(ClientTask(*request["assignment"]), request["clients"]))


def message_bytes(message: Weights) -> int:
    """Bytes of all tensors in a message."""
    return sum(tensor.numel() * tensor.element_size() for tensor in message.values())


def _mean(values: list[float]) -> float | None:
    """Mean over the clients that have test images; None where none has or nothing was measured."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None
