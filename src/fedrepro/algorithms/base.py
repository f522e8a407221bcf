"""FedAvg (McMahan et al. 2017), and with it the hooks that other methods override.

A method is a subclass of `FedAvg` with the options `Params`. In a round, `FedAvg.round` calls the
hooks in this order:

    where   hook                    returns
    server  initial_state           the server's own state (only before round 1)
            server_prepare          the server's state after it used its proxy images
            broadcast               the message to each participant
    client  prepare                 constants of the local objective, computed before local training
            reference_outputs       per-image outputs of networks that do not change in the round
            outputs, loss           the local objective, in every step
            personalised_weights    the weights that the client is tested with after local training
            finish                  the message to the server, and the state that the client keeps
    server  aggregate               the new global weights and server state
            evaluation_weights      the weights that the global model is tested with

A method whose round has other phases overrides `round`, with the operations of `RoundRunner`.
Weights that `own_weights` names stay with each client: it starts from the received weights and its
own, at first the initial ones; it does not send its own, and the server does not average them. In
hooks on the client, `received` has the client's own weights. The global model is tested with the
mean of the own weights that the round's participants have; no client gets that.

`Weights` is a dictionary from names to tensors; a network's weights are all its parameters and
buffers. A hook is a pure function of its arguments and the settings. So one executor may call it
client by client and another for stacked clients, and runs that differ only in their seed may share
a recorded step. It evaluates networks only through `forward`, `call` and `apply_module`, which
compute in the run's `precision`.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedrepro.config.types import Frozen
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Head, Net, Outputs, PassOn
from fedrepro.models.tasks import Task

Weights = dict[str, Tensor]


class Batch(NamedTuple):
    """The inputs of the local objective: images (B, C, H, W), labels (B,), the rows of
    `reference_outputs` for these images, dropout masks if there is dropout
    (`models.dropout_masks`), and the constants from `prepare`."""

    images: Tensor
    labels: Tensor
    reference_outputs: tuple[Tensor, ...] = ()
    masks: tuple[Tensor, ...] = ()
    constants: Weights = {}


@dataclass(frozen=True)
class Client:
    """A client, as its method sees it in a round. `steps`, `lr`, `momentum` and `nesterov` belong
    to its local training."""

    number: int
    images: int  # number of its training images
    steps: int
    lr: float
    momentum: float
    state: Weights  # from `finish`, when it took part last; {} before
    classes: Callable[[], Tensor]  # (classes,): number of its training images of each class
    # all its training images of this round, augmented as in training but drawn apart, without
    # dropout, in batches of `proxy.batch_size` images (without a proxy: `batch_size`)
    estimation_batches: Callable[[], Iterator[Batch]]
    nesterov: bool = False


@dataclass(frozen=True)
class Server:
    """The server, as its method sees it in a round."""

    round: int
    clients: int  # number of all clients
    share: float  # aggregation weight of this round's participants among all clients, in 0..1
    state: Weights
    proxy: Callable[[], Iterator[Batch]]  # the server's own images; raises UserError if it has none


class ClientUpdate(NamedTuple):
    """A participant's message to the server and its aggregation weight; the shares of one
    `RoundRunner.train` sum to 1."""

    client: Client
    share: float
    message: Weights


class ClientOutput(NamedTuple):
    """The message that a client sends and the state that it keeps."""

    message: Weights
    state: Weights = {}


class Diverged(ArithmeticError):
    """Raised by a `round` that cannot continue with weights that are not finite; otherwise the
    engine checks for them."""


class RoundRunner(Protocol):
    """The operations of a round."""

    clients: tuple[int, ...]  # the participants
    lr: float  # of the round
    epochs: int  # local epochs by the settings

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
        """Send `received` to clients, train them and call `finish`; yields their updates, to be
        iterated once.

        Args:
            clients: None: the participants.
            lr, epochs: None: those of the settings.
            trained: weights that training changes; None: all that the network trains.
            starts: client -> initial weights, if not the received ones: for example those of an
                earlier phase.
            uploaded: names that are sent of a message; the rest stays at the client for the next
                phase, and its bytes are not counted. None: all.
        """
        ...

    def count_bytes(self, down: int = 0, up: int = 0) -> None:
        """Count bytes that are sent outside `train`."""
        ...


def vmap_silently(function: Callable, in_dims: tuple[int | None, ...] | int = 0) -> Callable:
    """Return torch's `vmap` of a function, without warnings that it computes an operation one by
    one, such as an LSTM's."""
    mapped = vmap(function, in_dims)

    def call(*inputs: Tensor) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop because")
            return mapped(*inputs)

    return call


def _in_all_places(part: nn.Module, weights: Weights) -> Weights:
    """Return the weights of a part, and those that some layers share once for each of these layers;
    not again for a layer that has two names, after which `functional_call`, which ties by names,
    would leave it with the wrong weights."""
    first: dict[int, str] = {}
    places = {}
    for prefix, layer in part.named_modules():
        for kind in (layer.named_parameters, layer.named_buffers):
            for place, tensor in kind(prefix, recurse=False, remove_duplicate=False):
                if (name := first.setdefault(id(tensor), place)) in weights:
                    places[place] = weights[name]
    return places


class FedAvg:
    """Local SGD on the task's loss, then the weighted mean of the clients' weights."""

    class Params(Frozen):
        pass

    needs_hidden_layer: ClassVar[bool] = False  # since it uses the inputs of the last layer
    supports_kept_momentum: ClassVar[bool] = True  # the setting `keep_momentum`
    # of local training, so that clients' changes are sums of gradients times rates
    assumes_sgd: ClassVar[bool] = False

    @classmethod
    def warning(cls, params: Frozen, precision: str) -> str | None:
        """Return a warning about these options in a training with `precision`, or None."""
        return None

    @classmethod
    def needs_proxy(cls, params: Frozen) -> bool:
        """Return whether the server needs proxy images."""
        return False

    @classmethod
    def incompatibility(cls, params: Frozen, blocks: Sequence[Block | Head]) -> str | None:
        """Return why the method cannot train a network of these blocks (the head last), or None if
        it can."""
        return missing_hidden_layer(blocks) if cls.needs_hidden_layer else None

    def __init__(self, params: Frozen, net: Net, generator: torch.Generator, task: Task) -> None:
        self.params, self.task = params, task
        self.computes_in_bfloat16 = False  # whether its networks compute in bfloat16
        # the engine switches to training mode for local training
        self.net = self.wrap_net(net, generator).eval()
        self.names = tuple(self.net.tensors)
        self.trained = self.net.trained
        self.fixed = tuple(
            name for name, _ in self.net.named_parameters() if name not in self.trained
        )
        own = frozenset(self.own_weights())
        self.own = tuple(name for name in self.names if name in own)
        if not self.trained:
            raise UserError(
                f"model {net.spec.model}: all of its weights are frozen. Let some be trained"
            )
        if own >= set(self.trained):
            where = f"algorithm {type(self).__module__.rpartition('.')[2]}: model {net.spec.model}"
            raise UserError(
                f"{where}: all weights that it trains would stay with clients. Choose another "
                f"method or model"
            )

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        """Return the network to train: `net`, or one made from it, whose new weights are drawn from
        `generator`."""
        return net

    def own_weights(self) -> Iterable[str]:
        """Return the names of the weights and statistics that stay with each client; called
        once."""
        return ()

    def forward(self, weights: Weights, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """Return the network's outputs at `weights`, which may contain other tensors too."""
        return self.call(weights, images, masks)

    def call(self, weights: Weights, *inputs) -> Outputs:
        """Call the network's forward pass with its own weights among `weights`."""
        return self.apply_module(self.net, {name: weights[name] for name in self.names}, *inputs)

    def apply_module(self, part: nn.Module, weights: Weights, *inputs) -> Any:
        """Return the outputs of a part of the network. Within `autocast` it computes in bfloat16;
        outputs are float32."""
        given = _in_all_places(part, weights)
        used = dict(given)
        if not self.computes_in_bfloat16:
            outputs = functional_call(part, used, inputs, tie_weights=False)
        else:
            with torch.autocast(inputs[0].device.type, torch.bfloat16, cache_enabled=False):
                outputs = functional_call(part, used, inputs, tie_weights=False)
            outputs = outputs.to_float32() if isinstance(outputs, Outputs) else outputs.float()
        for place, tensor in used.items():
            if tensor is not given[place]:  # a buffer to which the module assigned another tensor
                given[place].copy_(tensor.detach())
        return outputs

    @contextmanager
    def autocast(self, bfloat16: bool) -> Iterator[None]:
        """Let networks, trained and received ones, compute in bfloat16 within the context, if
        `bfloat16`; the objective itself stays in float32."""
        before, self.computes_in_bfloat16 = self.computes_in_bfloat16, bfloat16
        try:
            yield
        finally:
            self.computes_in_bfloat16 = before

    @property
    def trainings_per_round(self) -> int:
        """The number of local trainings of a participant in a round, for estimates of its cost."""
        return 1

    def round(
        self, weights: Weights, server: Server, runner: RoundRunner
    ) -> tuple[Weights, Weights]:
        """Run one round; returns the new global weights and server state."""
        server = replace(server, state=self.server_prepare(weights, server))
        return self.aggregate(weights, server, runner.train(self.broadcast(weights, server)))

    # on the server, before the clients

    def initial_state(self, weights: Weights) -> Weights:
        """Return the server's own state before round 1."""
        return {}

    def server_prepare(self, weights: Weights, server: Server) -> Weights:
        """Return the server's state after it used its proxy images."""
        return server.state

    def broadcast(self, weights: Weights, server: Server) -> Weights:
        """Return the message to each participant; its size counts as bytes down."""
        return weights

    # on a client

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return constants of this client's local objective. Their names and shapes must be the
        same for all clients, which may be trained in a stack."""
        return {}

    def reference_outputs(
        self, received: Weights, images: Tensor, constants: Weights
    ) -> tuple[Tensor, ...]:
        """Return tensors that the loss needs, with a row for each image, from networks that do not
        change in the round: the received one, or one among the client's `constants`.

        Networks are in evaluation mode here. Without augmentation the engine calls this once per
        image and round."""
        return ()

    @property
    def needs_reference(self) -> bool:
        """Whether the method overrides `reference_outputs`."""
        return type(self).reference_outputs is not FedAvg.reference_outputs

    def outputs(self, weights: Weights, batch: Batch) -> Outputs:
        """Return the trained network's outputs for the local objective."""
        return self.forward(weights, batch.images, batch.masks)

    def task_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the task's loss, a scalar: the first term of every local objective."""
        return self.task.loss(outputs.logits, batch.labels)

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        """Return the local objective on one batch, a scalar.

        The network is in training mode here: outputs of other networks have to come from
        `reference_outputs`."""
        return self.task_loss(self.outputs(weights, batch), batch)

    def personalised_weights(self, weights: Weights, received: Weights) -> Weights:
        """Return the weights that a client is tested with after local training, with any other
        tensors that `forward` needs."""
        return weights

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        """Return the message to the server, whose size counts as bytes up, and the state that the
        client keeps."""
        return ClientOutput(weights)

    # on the server, after the clients

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        """Return the new global weights and server state.

        `updates` yields messages as clients finish, and can be iterated once. On one core, a mean
        holds the message of one client at a time; on several cores, those of all participants.
        """
        return self.average(weights, updates), server.state

    def average(self, like: Weights, updates: Iterable[ClientUpdate]) -> Weights:
        """Return the mean, weighted by shares, of the tensors named in `like`; weights that are not
        trained are copied from `like`, since a mean of equal numbers may round, and so are clients'
        own, which they do not send."""
        means = weighted_mean(
            {name: tensor for name, tensor in like.items() if name not in self.own}, updates
        )
        return like | means | {name: like[name] for name in self.fixed}

    def evaluation_weights(self, weights: Weights, state: Weights) -> Weights:
        """Return the weights that the global model is tested with, with any tensors of the server's
        `state` that it needs."""
        return weights


def missing_dense_layer(blocks: Sequence[Block | Head]) -> str | None:
    """Return why a method that changes the last layer, or uses its inputs, cannot train a module
    without one, else None."""
    return (
        "its scores do not come from a dense layer of their own"
        if isinstance(blocks[-1], PassOn)
        else None
    )


def missing_hidden_layer(blocks: Sequence[Block | Head]) -> str | None:
    """Return why a method that uses the inputs of the last layer cannot train a network without
    hidden layers, else None.

    There these inputs are the images, on which no weight has an influence, so that the method would
    be FedAvg."""
    missing = (
        None if len(blocks) > 1 else "it needs a hidden layer before the last; choose another model"
    )
    return missing_dense_layer(blocks) or missing


def weighted_mean(like: Weights, updates: Iterable[ClientUpdate]) -> Weights:
    """Return the mean, weighted by shares, of the tensors named in `like`.

    Sums are in float64, in the order of the updates; the means of integers (counters) are
    rounded."""
    totals = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in like.items()}
    for _, share, message in updates:
        for name, total in totals.items():
            total.add_(message[name], alpha=share)
    return {
        name: (total if like[name].is_floating_point() else total.round()).to(like[name].dtype)
        for name, total in totals.items()
    }
