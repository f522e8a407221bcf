"""FedMA: Wang et al., Federated Learning with Matched Averaging, ICLR 2020, Alg. 1; numbers from
the authors' code.

Networks that differ only in the order of their units are the same network, but their mean is not.
So layer by layer from the images on, the server matches the clients' units (`_matching.py`: the
posterior of PFNM over incoming weights and bias) and averages matched ones. The clients receive the
matched layer, sort their next layer's inputs by it, freeze it, and train the layers above again;
then they send their next layer. The head is averaged class by class, with weights n_jc / sum_j n_jc
of the clients' images. A unit that resembles no other client's becomes a unit of the global network
of its own, which so gets wider than a client's; in the next round each client cuts it back to the
units that its own were matched to. `weighting` is not used.

A round of ours is one "communication round" of the code and includes all of that: local training of
the whole network, then a phase for each hidden block. A network of N layers is sent up once, layer
by layer, and down twice, and a client trains N - 1 + `last_epochs` times the local epochs (VGG9: 11
times). Figures that compare methods by rounds seem to count a round for each layer: the 54 of
Psi-Net's Fig. 4a are then 6 of ours with VGG9; its Fig. 4b has 1,500 epochs for 150 a round, 10 of
ours, where the curve over rounds ends at 100. That is our reading, and counts the epochs of the
first phase alone.

Where paper and code differ, or leave a choice:
- sigma, sigma0, gamma, iterations     of the posterior, as in the code; sigma and sigma0 are
  variances
- posterior   `paper`: as PFNM derives it. `code`: the popularity of a unit counts half, and 10
              clients at most, and the prior's mean for the bias, 0.1, is applied to the first
              incoming weight in all layers but the first
- units       a global unit is the `mean` of the matched units (paper), or the mean of the
              `posterior` (code), which is nearer to the prior: with sigma0 = 1 by n / (n + 1) for n
              clients, so that equal networks are not reproduced
- grow        false: no client adds units, the widths stay
- last_lr, last_epochs     when only the head is trained: factors for the rate and the epochs

Our own: all clients start round 1 from the same weights, as with every method (in the code each has
its own); weight decay is that of the settings in all phases (code: only in training of the head); a
client that did not take part in the last round gets the units that most clients have, and its own
accuracy, if measured, is that after one training of the whole global network; a class that no
participant has keeps the plain mean; the code's limit of 700 units never leaves a unit unassigned.
Indices and class counts are sent at 8 bytes each. As widths change, steps are recorded again in
every phase. A unit that is never active, with no bias yet, may be equally near to several global
units: then the last bit decides, and executors, whose sums round differently, may give different
results.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedrepro.algorithms._matching import Prior, match, sum_assigned
from fedrepro.algorithms.base import ClientUpdate, Diverged, FedAvg, RoundRunner, Server, Weights
from fedrepro.config.types import Count, Frozen, Number, Positive
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Conv, Dense, Head, Net

UNITS = "units."  # prefix of blocks' names: the global units of each client, (clients, units)
INDEX = 8  # bytes of an index or count
BIAS = 0.1  # the prior's mean of a bias; of a weight it is 0


class FedMA(FedAvg):
    class Params(Frozen):
        sigma: Positive = 1.0
        sigma0: Positive = 1.0
        gamma: Positive = 7.0
        iterations: Annotated[int, Field(ge=0), Number] = 5
        posterior: Literal["code", "paper"] = "code"
        units: Literal["mean", "posterior"] = "mean"
        grow: bool = True
        last_lr: Positive = 0.1
        last_epochs: Count = 3

    params: Params
    supports_kept_momentum: ClassVar[bool] = False  # its weights change their shapes

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        """Return why a network has layers whose units cannot be matched, or None."""
        supported = (Conv, Dense, Head)
        for block in blocks:
            if type(block) not in supported:
                kinds = ", ".join(kind.__name__ for kind in supported)
                return (
                    f"{block.name} is a {type(block).__name__}: it can match only blocks of "
                    f"the kinds {kinds}"
                )
        for block in blocks:
            if isinstance(block, supported) and block.groups > 1:
                return f"{block.name}: groups: expected 1 (got {block.groups})"
            if isinstance(block, Conv) and block.norm != "none":
                return f"norm: {block.name} has '{block.norm}': choose none"
        return None

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        self.task.require_class_scores("algorithm fedma")
        if len(net.trained) < len(list(net.parameters())):
            raise UserError(
                f"algorithm fedma: model {net.spec.model}: frozen: it averages all weights: "
                f"expected [] (none)"
            )
        self.seed = int(torch.randint(1 << 62, (), generator=generator))
        # names of weight and bias, if any
        self.layers = {block: net.state_names(block) for block in net.blocks}
        return net

    @property
    def trainings_per_round(self) -> int:
        """The trainings of the whole network, of the layers above each hidden block but the last,
        and of the head."""
        hidden = len(self.layers) - 1
        return hidden + self.params.last_epochs if hidden else 1

    def round(
        self, weights: Weights, server: Server, runner: RoundRunner
    ) -> tuple[Weights, Weights]:
        blocks, state = list(self.layers), {}
        networks = self.cut_networks(weights, server, runner)
        updates = _in_order(
            runner.train(
                self.broadcast(weights, server), starts=networks, uploaded=self.layers[blocks[0]]
            )
        )
        for place, (block, after) in enumerate(pairwise(blocks), 1):
            units, layer = self.merge(block, [update.message for update in updates], server.round)
            state[UNITS + block] = _unit_table(units, updates, server.clients)
            runner.count_bytes(down=INDEX * sum(map(len, units)))
            networks = {
                update.client.number: self.adapt(update.message, layer, after, client_units)
                for update, client_units in zip(updates, units, strict=True)
            }
            above = [name for later in blocks[place:] for name in self.layers[later]]
            is_last = after == blocks[-1]
            lr = runner.lr * self.params.last_lr if is_last else None
            epochs = runner.epochs * self.params.last_epochs if is_last else None
            names = self.layers[after]
            updates = _in_order(
                runner.train(
                    layer, starts=networks, trained=above, uploaded=names, lr=lr, epochs=epochs
                )
            )
        classes = torch.stack([update.client.classes() for update in updates])
        runner.count_bytes(up=INDEX * classes.numel())
        head = {
            name: _mean_by_class([update.message[name] for update in updates], classes)
            for name in self.layers[blocks[-1]]
        }
        return updates[0].message | head, state

    def cut_networks(
        self, weights: Weights, server: Server, runner: RoundRunner
    ) -> dict[int, Weights]:
        """Return each participant's network: its own units of the global one. In round 1 {}: all
        start from the global one."""
        networks = {number: dict(weights) for number in runner.clients} if server.state else {}
        for block, after in pairwise(self.layers if networks else ()):
            weight, (into, *_) = self.layers[block][0], self.layers[after]
            table = server.state[UNITS + block].cpu()
            runner.count_bytes(down=INDEX * len(networks) * table.shape[1])
            for number, network in networks.items():
                units = table[number]
                network |= {name: network[name][units] for name in self.layers[block]}
                inputs = _inputs(network[into], len(weights[weight]))[:, units]
                network[into] = inputs.reshape(len(inputs), -1, *network[into].shape[2:])
        return networks

    def merge(
        self, block: str, networks: Sequence[Weights], round: int
    ) -> tuple[list[np.ndarray], Weights]:
        """Match the units of a block; returns for each network the global units (L_j,) of its
        units, and the global block.

        Raises Diverged if a network is not finite, since its units cannot be matched."""
        params, like = self.params, {name: networks[0][name] for name in self.layers[block]}
        clients = [np.hstack([_rows(network[name]) for name in like]) for network in networks]
        if not all(np.isfinite(units).all() for units in clients):
            raise Diverged(block)
        mean = self.prior_mean(block, clients[0].shape[1])
        prior = Prior(
            mean, params.sigma, params.sigma0, params.gamma, params.posterior, params.grow
        )
        units = match(
            clients,
            prior,
            params.iterations,
            rng.numpy_generator(self.seed, f"matching {block}", round),
        )
        totals, counts = sum_assigned(clients, units)
        values = torch.from_numpy(
            totals / counts[:, None] if params.units == "mean" else prior.unit(totals, counts)
        )
        parts = values.split([tensor[0].numel() for tensor in like.values()], 1)
        return units, {
            name: part.to(tensor).reshape(-1, *tensor.shape[1:])
            for (name, tensor), part in zip(like.items(), parts, strict=True)
        }

    def prior_mean(self, block: str, length: int) -> np.ndarray:
        """Return the prior's mean of a unit: its incoming weights, then its bias."""
        mean = np.zeros(length)
        if len(self.layers[block]) > 1:
            first = block == next(iter(self.layers))
            mean[-1 if first or self.params.posterior == "paper" else 0] = BIAS
        return mean

    def adapt(self, network: Weights, layer: Weights, after: str, units: np.ndarray) -> Weights:
        """Return a client's network with the global `layer`, and with the inputs of the block
        `after` it sorted by the global units; inputs from units that the client does not have are
        0."""
        into, width = self.layers[after][0], len(next(iter(layer.values())))
        old = _inputs(network[into], len(units))
        inputs = old.new_zeros(len(old), width, old.shape[2])
        inputs[:, torch.from_numpy(units).to(old.device)] = old
        return network | layer | {into: inputs.reshape(len(old), -1, *network[into].shape[2:])}


def _in_order(updates: Iterable[ClientUpdate]) -> list[ClientUpdate]:
    """Sort updates by client."""
    return sorted(updates, key=lambda update: update.client.number)


def _rows(tensor: Tensor) -> np.ndarray:
    """Return an array with a row for each unit."""
    return tensor.reshape(len(tensor), -1).double().cpu().numpy()


def _inputs(weight: Tensor, units: int) -> Tensor:
    """View a layer's weights as (its units, `units` of the layer before, weights of a kernel or of
    the places of a map)."""
    return weight.reshape(len(weight), units, -1)


def _unit_table(
    units: Sequence[np.ndarray], updates: Sequence[ClientUpdate], clients: int
) -> Tensor:
    """Return the global units of every client (clients, units); a client that did not take part
    gets the most frequent ones."""
    popular = np.argsort(-np.bincount(np.concatenate(units)), kind="stable")[: len(units[0])]
    table = np.tile(np.sort(popular), (clients, 1))
    for update, client_units in zip(updates, units, strict=True):
        table[update.client.number] = client_units
    return torch.from_numpy(table)


def _mean_by_class(tensors: Sequence[Tensor], classes: Tensor) -> Tensor:
    """Return the mean of tensors (classes, ...), weighted for each class by the clients' images of
    it, `classes`."""
    images = classes.double()
    images[:, classes.sum(0) == 0] = 1
    shares = (images / images.sum(0)).to(tensors[0].device)
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for share, tensor in zip(shares, tensors, strict=True):
        total = total + share.view(-1, *[1] * (tensor.dim() - 1)) * tensor.double()
    return total.to(tensors[0].dtype)
