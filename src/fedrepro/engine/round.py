"""One round at work: the pieces that a method's `round` is made of, and what is noted while they run."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from fedrepro import rng
from fedrepro.algorithms.base import Batch, Client, Sent, Weights
from fedrepro.engine.evaluation import measured
from fedrepro.engine.feed import Feed, batch_sizes
from fedrepro.engine.site import Site
from fedrepro.engine.state import Kept, State
from fedrepro.measures import MEASURES, Measure

OTHERS = " of others"  # draws of clients that train only to be measured are not those of a participant


class Trained(NamedTuple):
    """A participant's local training, for who watches a round."""

    client: Client
    received: Weights
    weights: Weights


class Round:
    """`measures`: those that are due in this round. `watch` is shown every participant after its local training."""

    def __init__(
        self,
        site: Site,
        state: State,
        measures: dict[str, Measure],
        watch: Callable[[Trained], None] | None = None,
    ) -> None:
        self.site, self.state, self.number, self.watch = site, state, state.round + 1, watch
        self.clients, self.lr = tuple(site.cohort(self.number)), site.lr(self.number)
        self.epochs = site.config.local_epochs
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
        starts: Mapping[int, Weights] | None = None,
        back: Iterable[str] | None = None,
    ) -> Iterator[Sent]:
        """As `algorithms.base.Work.train`. What was received is measured in the first phase, what was trained in every one."""
        site, phase, starts = self.site, f"/{self.phases}" * (self.phases > 0), starts or {}
        back = None if back is None else frozenset(back)
        members = [self.client(number, lr, epochs, phase) for number in (self.clients if clients is None else clients)]
        trained = site.algorithm.trained if trained is None else tuple(trained)
        feeds = (self.feed(received, client, epochs, phase, starts.get(client.number)) for client in members)
        ended = site.executor.train(received, feeds, self.lr if lr is None else lr, trained)
        self.phases += 1
        self.down += len(members) * size(received)
        shares = site.shares([client.images for client in members])
        for client, share, (weights, loss) in zip(members, shares, ended, strict=True):
            self.losses.append(loss)
            self._measure(self.own, client.number, received, weights, first=not phase)
            if self.watch:
                self.watch(Trained(client, received, weights))
            finished = site.algorithm.finish(weights, received, client)
            self.up += size({name: part for name, part in finished.message.items() if back is None or name in back})
            if finished.state:
                self.kept[client.number] = Kept(self.number, finished.state)
            yield Sent(client, share, finished.message)
        if received.keys() >= set(site.algorithm.names):  # else it goes on with what only participants have
            self._measure_others(received, first=not phase)

    def sent(self, down: int = 0, up: int = 0) -> None:
        self.down, self.up = self.down + down, self.up + up

    def tested(self, weights: Weights, state: Weights) -> dict[str, float]:
        return self.site.tested(weights, state, MEASURES)

    def row(self) -> dict[str, float | int | None]:
        """What the round's row says of the clients."""
        loss = torch.stack(self.losses).mean().item() if self.losses else None
        means = {name: _mean(list(values.values())) for name, values in self.seen.items()}
        return means | {"train_loss": loss, "bytes_down": self.down, "bytes_up": self.up}

    def client(self, number: int, lr: float | None = None, epochs: int | None = None, phase: str = "") -> Client:
        """A client as its method sees it in this round."""
        site, round = self.site, self.number
        config, data = site.config_for(epochs), site.data
        index = data.train_index(number, round)
        # as large as the server's, so that an estimate that depends on their size has one scale on either side
        together = config.proxy.batch_size if config.proxy else config.batch_size
        state = self.kept.get(number) or self.state.clients.get(number)

        def batches() -> Iterator[Batch]:
            def draw(purpose: str) -> torch.Generator:
                return rng.generator(config.seed, f"{purpose} looked at{phase}", round, number)

            order = torch.randperm(len(index), generator=draw("batches")).to(index.device)
            changes = draw("augment") if config.augment else None
            for rows in index[order].split(together):
                yield Batch(data.images(rows, number, changes), data.train_y[rows])

        return Client(
            number=number,
            images=len(index),
            steps=len(batch_sizes(config, len(index))),
            lr=self.lr if lr is None else lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            state=state.tensors if state else {},
            classes=lambda: data.counts(index),
            batches=batches,
        )

    def feed(
        self,
        received: Weights,
        client: Client,
        epochs: int | None = None,
        phase: str = "",
        start: Weights | None = None,
    ) -> Feed:
        """The batches of its local training, after `prepare`, and where that starts (None: at what was received)."""
        site = self.site
        with torch.no_grad():
            own = site.algorithm.prepare(received, client)
        config = site.config_for(epochs)
        start = site.place(start) if start else received
        return Feed(site.algorithm, config, site.data, received, client.number, self.number, own, phase, start)

    def _measure(
        self, measures: dict[str, Measure], client: int, received: Weights, weights: Weights | None, first: bool
    ) -> None:
        """Own-test measures of one client, each model's at once; `weights` after its training, None where it did not train."""
        models = {"received": received} if first else {}
        if weights is not None:
            models["trained"] = self.site.algorithm.personal(weights, received)
        for model, tested in models.items():
            if wanted := {name: measure for name, measure in measures.items() if measure.model == model}:
                part = self.site.data.test_part(client, self.number)
                found = measured(self.site.algorithm, wanted, tested, *part, self.site.chunk)
                for name, value in found.items():
                    self.seen[name][client] = value

    def _measure_others(self, received: Weights, first: bool) -> None:
        """The same of the clients that do not take part, where a measure is over all of them: they train to be measured."""
        measures = {name: measure for name, measure in self.own.items() if measure.over == "clients"}
        others = [number for number in range(self.site.clients) if number not in self.clients] if measures else []
        ended: Iterable = ((None, None) for _ in others)
        if any(measure.model == "trained" for measure in measures.values()):
            feeds = (self.feed(received, self.client(number, phase=OTHERS), phase=OTHERS) for number in others)
            ended = self.site.executor.train(received, feeds, self.lr, self.site.algorithm.trained)
        for client, (weights, _) in zip(others, ended, strict=True):
            self._measure(measures, client, received, weights, first)


def size(message: Weights) -> int:
    """Bytes of all tensors in a message."""
    return sum(tensor.numel() * tensor.element_size() for tensor in message.values())


def _mean(values: list[float]) -> float | None:
    """Mean over the clients that have test images; None where none has or nothing was measured."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None
