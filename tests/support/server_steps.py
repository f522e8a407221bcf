"""Two rounds of a method's server against the same in NumPy. What clients send is drawn; their
training is tested with `client_steps.py`."""

from typing import NamedTuple

import numpy as np
import torch

from fedrepro.algorithms.base import Batch, Client, Server
from fedrepro.core import rng
from fedrepro.models import Conv, Dense, Head
from support.federation import assert_close
from support.networks import assembled, classifying, fits

CLIENTS, PARTICIPANTS = 5, (0, 1, 3)
SHARES = (0.2, 0.3, 0.5)  # of the participants among themselves
SHARE = 0.45  # of the participants among all clients
STEPS, MOMENTUM, RATE = (2, 3, 7), 0.6, 0.5
# images of each class, that each participant holds: nobody has one of the last
CLASSES = ((4, 2, 0), (0, 5, 0), (1, 8, 0))


class Sent(NamedTuple):
    """What a participant sent."""

    client: Client
    share: float
    message: dict


class Scene(NamedTuple):
    """What the server has before a round and what it gets: its weights and state, what it sends,
    and what is sent to it in each phase (most methods have one)."""

    weights: dict
    state: dict
    received: dict
    phases: list[list[Sent]]
    method: object


class Clients:
    """A `RoundRunner` whose local trainings end at random weights near their start."""

    clients, lr, epochs = PARTICIPANTS, RATE, 2

    def __init__(self, method, kept: dict, batch: Batch, draw: torch.Generator) -> None:
        self.method, self.kept, self.batch, self.draw = method, kept, batch, draw
        self.received, self.phases = {}, []

    def train(self, received, clients=None, *, starts=None, trained=None, **_):
        self.phases.append([])
        self.received = self.received or received
        for number, share, steps, classes in zip(PARTICIPANTS, SHARES, STEPS, CLASSES, strict=True):
            client = Client(
                number,
                sum(classes),
                steps,
                RATE,
                MOMENTUM,
                self.kept.get(number, {}),
                lambda classes=classes: torch.tensor(classes),
                lambda: iter([self.batch]),
            )
            message, state = self.method.finish(
                self._trained((starts or {}).get(number, received), trained), received, client
            )
            self.kept[number] = state
            self.phases[-1].append(Sent(client, share, arrays(message)))
            yield self.phases[-1][-1]._replace(message=message)

    def _trained(self, start, trained):
        """The weights of a local training: those that it trains and the statistics are others than
        before."""
        names = {
            *(trained or self.method.trained),
            *(set(self.method.names) - set(self.method.net.trained)),
        }
        return {
            name: near(start[name], self.draw) if name in names else start[name]
            for name in self.method.names
        }

    def count_bytes(self, down=0, up=0):
        pass


def near(tensor, draw):
    """Values beside those of a tensor; counters go on."""
    if not tensor.is_floating_point():
        return tensor + torch.randint(1, 9, tensor.shape, generator=draw)
    return tensor + 0.1 * torch.randn(tensor.shape, generator=draw, dtype=tensor.dtype)


def arrays(tensors):
    return {name: tensor.numpy().copy() for name, tensor in tensors.items()}


def weighted(name, at, over=None):
    """The mean by shares of what was sent under a name, a counter rounded."""
    total = sum(sent.share * sent.message[name] for sent in over or at.phases[0])
    return (
        total if np.issubdtype(at.phases[0][0].message[name].dtype, np.floating) else np.rint(total)
    )


def averaged(at):
    """The mean of the weights; what the server sent beside the weights is its state."""
    return {name: weighted(name, at) for name in at.weights}, {
        n: v for n, v in at.received.items() if n not in at.weights
    }


def shared(names, at):
    """The mean of the weights that clients send; those that begin with `names` stay."""
    return {
        name: value if name.startswith(names) else weighted(name, at)
        for name, value in at.weights.items()
    }, {}


def blocks(norm):
    return [
        Conv("conv1", 2, 1, activation=None, norm=norm),
        Dense("fc1", 3, activation=None),
        Head(3),
    ]


def check_server(name: str, options: dict, by_hand) -> None:
    """Compare two rounds of a method with these options: three of five clients with other shares,
    steps and classes; the second round starts from what the first left. `by_hand(at)` returns the
    new weights and the new state, `at` a `Scene`.

    The network is two linear layers on a convolution, without and with batch normalisation, as far
    as the method takes it."""
    networks = [
        network for network in map(blocks, ("none", "batch")) if fits(name, options, network)
    ]
    assert networks, f"{name} takes no network of {blocks('batch')}"
    for network in networks:
        _check_server(name, options, by_hand, network)


def _check_server(name: str, options: dict, by_hand, network: list) -> None:
    draw = rng.generator(3, "servers")
    method = classifying(name, options, assembled(network, (2, 1, 2)).double())
    weights = {key: near(tensor, draw) for key, tensor in method.net.state_dict().items()}
    state, kept = method.initial_state(weights), {}
    x, y = (
        torch.randn(6, 2, 1, 2, generator=draw, dtype=torch.float64),
        torch.tensor([0, 1, 2, 0, 1, 0]),
    )
    for round in (1, 2):
        clients = Clients(method, kept, Batch(x, y), draw)
        server = Server(round, CLIENTS, SHARE, state, lambda: iter([Batch(x, y)]))
        found = method.round(weights, server, clients)
        expected = by_hand(
            Scene(arrays(weights), arrays(state), arrays(clients.received), clients.phases, method)
        )
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(
                ours, {key: torch.as_tensor(value) for key, value in theirs.items()}, 1e-12
            )
        assert any(not torch.equal(found[0][key], weights[key]) for key in weights)
        weights, state = found
