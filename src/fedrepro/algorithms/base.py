"""FedAvg (McMahan et al. 2017), and with it the hooks that any other method may replace, in the order of a round:

    server   start                     its own state before round 1
             survey                    what it measures on its proxy images
             broadcast                 what each participant receives
    client   prepare                   what it finds out on its own images before its local training
             frozen, outputs, loss     the local objective, in every step
             personal                  what it is tested with after its local training
             finish                    what it sends back, and what it keeps until it takes part again
    server   aggregate                 new weights and state from what was sent, and by whom
             tested                    what the global model is tested with

`round` calls them; a method whose round has other phases replaces it, with the pieces that `Work` names.

`Weights` is a plain dictionary name -> tensor; those of a network hold all its parameters and buffers. A hook is a pure
function of its arguments and of the settings, so that one executor may call it client by client and another may run it over
stacked clients, and runs that differ in their seed may share a recorded step. It looks at networks through `forward`, `call`
and `put_out` alone, which compute as the run's `precision` says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedrepro.config.types import Frozen
from fedrepro.models import Block, Head, Net, Outputs
from fedrepro.models.tasks import Task

Weights = dict[str, Tensor]


class Batch(NamedTuple):
    """What the local objective sees: images (B, C, H, W), labels (B,), what `frozen` gave for each of the images, where dropout
    is on its masks (`models.dropout_masks`), and what `prepare` found."""

    images: Tensor
    labels: Tensor
    reference_outputs: tuple[Tensor, ...] = ()
    masks: tuple[Tensor, ...] = ()
    constants: Weights = {}


@dataclass(frozen=True)
class Client:
    """A participant, as its method sees it in a round. `steps`, `lr` and `momentum` are of its local training."""

    number: int
    images: int  # that it trains on
    steps: int
    lr: float
    momentum: float
    state: Weights  # what `finish` kept when it took part last; {} before
    classes: Callable[[], Tensor]  # (classes,): how many of its training images are of each
    # its training images of this round once, augmented as in training, nothing dropped, in batches as large as the server's
    batches: Callable[[], Iterator[Batch]]
    nesterov: bool = False  # whether its momentum is Nesterov's


@dataclass(frozen=True)
class Server:
    """What the server knows in a round."""

    round: int
    clients: int  # in all
    share: float  # of this round's participants among all clients, as the settings weight them
    state: Weights
    proxy: Callable[[], Iterator[Batch]]  # the images that it holds itself; raises UserError where it has none


class ClientUpdate(NamedTuple):
    """What a participant sent back. The shares of a training sum to 1."""

    client: Client
    share: float
    message: Weights


class ClientOutput(NamedTuple):
    """What a client sends, and what it keeps: {} keeps nothing."""

    message: Weights
    state: Weights = {}


class Diverged(ArithmeticError):
    """What a `round` raises that cannot go on with networks that are not finite; others leave it to the engine to find out."""


class RoundRunner(Protocol):
    """What `round` may do."""

    clients: tuple[int, ...]  # the participants
    lr: float  # of the round
    epochs: int  # of a local training, as the settings have it

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
        """Send, train, finish: what comes back, client by client, to be read once. None: the participants, the settings' rate
        and epochs, every weight that the network trains.

        `starts`: where a client's training starts, by its number, if not at what it received: with weights that it has of an
        earlier phase, or with a part of what came. `back`: the names of what is sent back of a message; the rest stays with the
        client, for its next phase, and is not counted."""
        ...

    def count_bytes(self, down: int = 0, up: int = 0) -> None:
        """Count bytes that did not go through `train`."""
        ...

    def evaluate(self, weights: Weights, state: Weights) -> dict[str, float]:
        """The measures of a global model on the test set."""
        ...


class FedAvg:
    """Local SGD on the task's loss, then the weighted mean of the clients' weights."""

    class Params(Frozen):
        pass

    fedavg_params: ClassVar[dict | None] = {}  # the Params at which the method equals FedAvg; None where there are none
    supports_buffers: ClassVar[bool] = True  # whether it takes networks with running statistics
    supports_kept_momentum: ClassVar[bool] = True  # whether it allows `keep_momentum`

    @classmethod
    def warning(cls, params: Params, precision: str) -> str | None:
        """What a user should know of these options before a training in `precision`; None: nothing."""
        return None

    @classmethod
    def needs_proxy(cls, params: Params) -> bool:
        """Whether the server has to hold images itself."""
        return False

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        """Why a network of these blocks, the head last, is not for the method; None: it is."""
        return None

    def __init__(self, params: Params, net: Net, generator: torch.Generator, task: Task) -> None:
        self.params, self.task = params, task
        self.computes_in_bfloat16 = False  # whether its networks compute in bfloat16
        self.net = self.wrap_net(net, generator).eval()  # the engine switches to training mode where it trains
        self.names = tuple(self.net.state_dict())
        self.trained = self.net.trained
        self.fixed = tuple(name for name, _ in self.net.named_parameters() if name not in self.trained)

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        """The network that is trained: `net`, or one made from it, its new weights drawn from `generator`."""
        return net

    def forward(self, weights: Weights, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """The trained network at `weights`, which may hold other tensors beside the network's."""
        return self.call(weights, images, masks)

    def call(self, weights: Weights, *inputs) -> Outputs:
        """The network's own forward pass with these of its `weights`."""
        return self.apply_module(self.net, {name: weights[name] for name in self.names}, *inputs)

    def apply_module(self, part: nn.Module, weights: Weights, *inputs) -> Any:
        """What a part of the network puts out. Within `rounding` it computes in bfloat16, and puts out float32 again."""
        if not self.computes_in_bfloat16:
            return functional_call(part, weights, inputs)
        with torch.autocast(inputs[0].device.type, torch.bfloat16, cache_enabled=False):
            found = functional_call(part, weights, inputs)
        return found.single() if isinstance(found, Outputs) else found.float()

    @contextmanager
    def autocast(self, half: bool) -> Iterator[None]:
        """If `half`, networks compute in bfloat16 within, trained and received ones alike; what an objective makes of what they
        put out does not."""
        before, self.computes_in_bfloat16 = self.computes_in_bfloat16, half
        try:
            yield
        finally:
            self.computes_in_bfloat16 = before

    @property
    def trainings_per_round(self) -> int:
        """How many local trainings a round asks of a participant, for estimates of what it costs."""
        return 1

    def round(self, weights: Weights, server: Server, runner: RoundRunner) -> tuple[Weights, Weights]:
        """New global weights and server state."""
        server = replace(server, state=self.server_prepare(weights, server))
        return self.aggregate(weights, server, runner.train(self.broadcast(weights, server)))

    # the server, before the clients

    def initial_state(self, weights: Weights) -> Weights:
        """The server's own state before round 1."""
        return {}

    def server_prepare(self, weights: Weights, server: Server) -> Weights:
        """The server's state after it looked at its proxy images."""
        return server.state

    def broadcast(self, weights: Weights, server: Server) -> Weights:
        """What each participant receives; its size is counted as bytes sent down."""
        return weights

    # a client

    def prepare(self, received: Weights, client: Client) -> Weights:
        """What the objective needs of this client beside the batches: constants of its local training. Names and shapes are
        those of every client, whatever it kept, since some are trained in a stack."""
        return {}

    def reference_outputs(self, received: Weights, images: Tensor, constants: Weights) -> tuple[Tensor, ...]:
        """Per-image results of networks that do not change in the round, which the loss needs: of the one received, or one of
        the client's `own` from `prepare`. A row for each of `images`; networks are in evaluation mode here. The engine asks
        this once per image and round where images are not augmented."""
        return ()

    @property
    def needs_reference(self) -> bool:
        """Whether the loss needs `frozen`."""
        return type(self).reference_outputs is not FedAvg.reference_outputs

    def outputs(self, weights: Weights, batch: Batch) -> Outputs:
        """What the local objective sees of the trained network."""
        return self.forward(weights, batch.images, batch.masks)

    def task_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """The task's own loss, a scalar: what every objective starts from."""
        return self.task.loss(outputs.logits, batch.labels)

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        """The local objective on one batch, a scalar. The network is in training mode: what another one than the trained says
        of the images comes from `frozen`."""
        return self.task_loss(self.outputs(weights, batch), batch)

    def personalised_weights(self, weights: Weights, received: Weights) -> Weights:
        """What a client is tested with after its local training: its weights, and what it needs beside them."""
        return weights

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        """What a client returns, counted as bytes sent up, and what it keeps."""
        return ClientOutput(weights)

    # the server, after the clients

    def aggregate(self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]) -> tuple[Weights, Weights]:
        """New global weights and server state. Messages come one by one as the clients finish, to be read once: a mean then
        needs the memory of one client, however many take part (on several cores of all of them)."""
        return self.average(weights, updates), server.state

    def average(self, like: Weights, updates: Iterable[ClientUpdate]) -> Weights:
        """Mean, weighted by shares, of the tensors named in `like`; a weight that is not trained stays, where a mean of equal
        ones could round."""
        return weighted_mean(like, updates) | {name: like[name] for name in self.fixed}

    def evaluation_weights(self, weights: Weights, state: Weights) -> Weights:
        """What the global model is tested with: its weights, and what it needs beside them of the server's `state`."""
        return weights


def missing_hidden_layer(blocks: Sequence[Block | Head]) -> str | None:
    """The misfit of a method that looks at what enters the last layer: where that are the images themselves, no weight has a
    say in it, and the method would be FedAvg under another name."""
    return None if len(blocks) > 1 else "it needs a hidden layer before the last; choose another model"


def weighted_mean(like: Weights, updates: Iterable[ClientUpdate]) -> Weights:
    """Mean, weighted by shares, of the tensors named in `like`, summed in float64 in the given order; integers (counters) are
    rounded."""
    totals = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in like.items()}
    for _, share, message in updates:
        for name, total in totals.items():
            total.add_(message[name], alpha=share)
    return {
        name: (total if like[name].is_floating_point() else total.round()).to(like[name].dtype)
        for name, total in totals.items()
    }
