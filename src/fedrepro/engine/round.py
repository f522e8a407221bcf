"""One round at work: the pieces that a method's `round` is made of, and what is noted while they run."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, Client, Sent, Weights
from fedrepro.engine.evaluation import measured
from fedrepro.engine.feed import Feed, batch_sizes
from fedrepro.measures import MEASURES, Measure

if TYPE_CHECKING:
    from fedrepro.engine.federation import Federation, State

OTHERS = " of others"  # draws of clients that train only to be measured are not those of a participant


class Kept(NamedTuple):
    """A client's own state and the round in which it kept it."""

    round: int
    tensors: Weights


class Trained(NamedTuple):
    """A participant's local training, for who watches a round."""

    client: Client
    received: Weights
    weights: Weights


class Round:
    """`measures`: those that are due in this round. `watch` is shown every participant after its local training."""

    def __init__(
        self,
        federation: "Federation",
        state: "State",
        measures: dict[str, Measure],
        watch: Callable[[Trained], None] | None = None,
    ) -> None:
        self.federation, self.state, self.number, self.watch = federation, state, state.round + 1, watch
        self.clients = tuple(federation.cohort(self.number))
        self.own = {name: measure for name, measure in measures.items() if measure.over}
        self.phases, self.down, self.up = 0, 0, 0
        self.losses: list[Tensor] = []
        self.seen: dict[str, dict[int, float]] = {name: {} for name in self.own}  # measure -> client -> value
        self.kept: dict[int, Kept] = {}

    def train(
        self,
        received: Weights,
        clients: Iterable[int] | None = None,
        *,
        lr: float | None = None,
        epochs: int | None = None,
        trained: Iterable[str] | None = None,
    ) -> Iterator[Sent]:
        """As `algorithms.base.Work.train`. What was received is measured in the first phase, what was trained in every one."""
        federation, phase = self.federation, f"/{self.phases}" * (self.phases > 0)
        members = [self.client(number, lr, epochs, phase) for number in (self.clients if clients is None else clients)]
        trained = federation.algorithm.trained if trained is None else tuple(trained)
        feeds = (self.feed(received, client, epochs, phase) for client in members)
        ended = federation.executor.train(received, feeds, federation.lr(self.number) if lr is None else lr, trained)
        self.phases += 1
        self.down += len(members) * size(received)
        shares = federation.shares([client.images for client in members])
        for client, share, (weights, loss) in zip(members, shares, ended, strict=True):
            self.losses.append(loss)
            self._measure(client.number, received, weights, first=not phase)
            if self.watch:
                self.watch(Trained(client, received, weights))
            finished = federation.algorithm.finish(weights, received, client)
            self.up += size(finished.message)
            if finished.state:
                self.kept[client.number] = Kept(self.number, finished.state)
            yield Sent(client, share, finished.message)
        self._measure_others(received, first=not phase)

    def sent(self, down: int = 0, up: int = 0) -> None:
        self.down, self.up = self.down + down, self.up + up

    def tested(self, weights: Weights, state: Weights) -> dict[str, float]:
        return self.federation.tested(weights, state, MEASURES)

    def row(self) -> dict[str, float | int | None]:
        """What the round's row says of the clients."""
        loss = torch.stack(self.losses).mean().item() if self.losses else None
        means = {name: _mean(list(values.values())) for name, values in self.seen.items()}
        return means | {"train_loss": loss, "bytes_down": self.down, "bytes_up": self.up}

    def client(self, number: int, lr: float | None = None, epochs: int | None = None, phase: str = "") -> Client:
        """A client as its method sees it in this round."""
        federation, round = self.federation, self.number
        config, data = federation.config_for(epochs), federation.data
        index = data.train_index(number, round)
        state = self.kept.get(number) or self.state.clients.get(number)

        def batches() -> Iterator[Batch]:
            once = federation.config_for(1)
            feed = Feed(federation.algorithm, once, data, {}, number, round, phase=f" looked at{phase}")
            for rows in feed.index:
                yield Batch(data.images(rows, number, feed.changes), data.train_y[rows])

        return Client(
            number=number,
            images=len(index),
            steps=len(batch_sizes(config, len(index))),
            lr=federation.lr(round) if lr is None else lr,
            momentum=config.momentum,
            state=state.tensors if state else {},
            classes=lambda: data.train_y[index].bincount(minlength=data.dataset.classes),
            batches=batches,
        )

    def feed(self, received: Weights, client: Client, epochs: int | None = None, phase: str = "") -> Feed:
        """The batches of its local training, after `prepare`."""
        federation = self.federation
        with torch.no_grad():
            own = federation.algorithm.prepare(received, client)
        config = federation.config_for(epochs)
        return Feed(federation.algorithm, config, federation.data, received, client.number, self.number, own, phase)

    def _measure(self, client: int, received: Weights, weights: Weights, first: bool) -> None:
        """The own-test measures of one client, each model's at once."""
        for model, tested in (("received", received), ("trained", self.federation.algorithm.personal(weights, received))):
            wanted = {name: measure for name, measure in self.own.items() if measure.model == model}
            if wanted and (first or model == "trained"):
                part = self.federation.data.test_part(client, self.number)
                found = measured(self.federation.algorithm, wanted, tested, *part, self.federation.chunk)
                for name, value in found.items():
                    self.seen[name][client] = value

    def _measure_others(self, received: Weights, first: bool) -> None:
        """The same of the clients that do not take part, where a measure is over all of them: they train to be measured."""
        whole, self.own = self.own, {name: measure for name, measure in self.own.items() if measure.over == "clients"}
        others = [number for number in range(self.federation.clients) if number not in self.clients] if self.own else []
        if any(measure.model == "trained" for measure in self.own.values()):
            members = [self.client(number, phase=OTHERS) for number in others]
            feeds = (self.feed(received, client, phase=OTHERS) for client in members)
            lr, trained = self.federation.lr(self.number), self.federation.algorithm.trained
            for client, (weights, _) in zip(others, self.federation.executor.train(received, feeds, lr, trained), strict=True):
                self._measure(client, received, weights, first)
        else:
            for client in others:
                self._measure(client, received, received, first)
        self.own = whole


def size(message: Weights) -> int:
    """Bytes of all tensors in a message."""
    return sum(tensor.numel() * tensor.element_size() for tensor in message.values())


def _mean(values: list[float]) -> float | None:
    """Mean over the clients that have test images; None where none has or nothing was measured."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None
