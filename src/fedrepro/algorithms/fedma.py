"""FedMA: Wang et al., Federated Learning with Matched Averaging, ICLR 2020, Alg. 1; numbers from the authors' code.

Networks that differ only in the order of their units are the same network, but their mean is not. So layer by layer, from the
images on, the server finds out which units of the clients are the same one (`_matching.py`: the posterior of PFNM over incoming
weights and bias) and averages those. The clients get the matched layer, sort their next layer's inputs by it, freeze it, and
train the layers above again; then they send their next layer. The head is averaged class by class, with weights n_jc / sum_j
n_jc of the clients' images. A unit that is like no other client's becomes one of the global network's own, which so grows wider
than a client's; the next round each client cuts it back to the units that its own were matched to. `weighting` has no say here.

A round of ours is one "communication round" of the code, with all of that in it: local training of the whole network, then a
phase for each hidden block. A network of N layers goes once up, layer by layer, and twice down, and a client trains N - 1 +
`last_epochs` times the local epochs (VGG9: 11 times). Figures that compare methods by rounds seem to count a round for each
layer: the 54 of Psi-Net's Fig. 4a are then 6 of ours with VGG9; its Fig. 4b has 1,500 epochs for 150 a round, 10 of ours, where
the curve over rounds ends at 100. That is our reading, and counts the epochs of the first phase alone.

Where paper and code differ, or leave a choice:
- sigma, sigma0, gamma, iterations     of the posterior, as in the code; sigma and sigma0 are variances
- posterior   `paper`: as PFNM derives it. `code`: the popularity of a unit counts half, and 10 clients at most, and the prior's
              mean for the bias, 0.1, lands on the first incoming weight in all layers but the first
- units       a global unit is the `mean` of what was matched (paper), or the mean of the `posterior` (code), which is nearer to
              the prior: with sigma0 = 1 by n / (n + 1) for n clients, so that equal networks do not come back
- grow        false: no client adds units, the widths stay
- last_lr, last_epochs     where the head alone is trained: times the rate, times the epochs

Our own: all clients start round 1 from the same weights, as with every method (in the code each has its own); weight decay is
that of the settings in all phases (code: where the head alone is trained); who sat out the last round takes the units that most
have, and where its own accuracy is asked it is measured after one training of the whole global network; a class that no
participant has keeps the plain mean; the code's limit of 700 units leaves none without a place. Indices and class counts are
sent at 8 bytes each. As widths change, steps are recorded anew for every phase. A unit that never answers, with no bias yet,
may be as near to several global units at once: the last bit then decides which it is, and executors, whose sums round
otherwise, may part there.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedrepro.algorithms._matching import Prior, match, solver, summed
from fedrepro.algorithms.base import ClientUpdate, Diverged, FedAvg, RoundRunner, Server, Weights
from fedrepro.config.types import Count, Frozen, Number, Positive
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Conv, Dense, Head, Net

UNITS = "units."  # before a block's name: which of its global units each client has (clients, units)
INDEX = 8  # bytes
BIAS = 0.1  # the prior's mean of a bias; of a weight it is 0


class Algorithm(FedAvg):
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

    fedavg_params: ClassVar[None] = None
    supports_buffers: ClassVar[bool] = False
    supports_kept_momentum: ClassVar[bool] = False  # its weights change their shapes

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        """Of layers of which nobody knows here what their units are."""
        known = (Conv, Dense, Head)
        for block in blocks:
            if type(block) not in known:
                kinds = ", ".join(kind.__name__ for kind in known)
                return f"{block.name} is a {type(block).__name__}: it matches blocks of the kinds {kinds} alone"
        for block in blocks:
            if block.groups > 1:
                return f"{block.name}: groups: expected 1 (got {block.groups})"
            if getattr(block, "norm", "none") != "none":
                return f"norm: {block.name} has '{block.norm}': choose none"
        return None

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        self.task.needs_scores("algorithm fedma")
        if len(net.trained) < len(list(net.parameters())):
            raise UserError(f"algorithm fedma: model {net.plan.model}: frozen: it averages all weights: expected [], for none")
        solver()  # if it is missing, that should be known before the first round
        self.seed = int(torch.randint(1 << 62, (), generator=generator))
        self.layers = {block: net.names(block) for block in net.blocks}  # weight, and bias where there is one
        return net

    @property
    def passes(self) -> int:
        """The whole network, then what is above each hidden block but the last, then the head."""
        hidden = len(self.layers) - 1
        return hidden + self.params.last_epochs if hidden else 1

    def round(self, weights: Weights, server: Server, runner: RoundRunner) -> tuple[Weights, Weights]:
        blocks, state = list(self.layers), {}
        own = self.cut(weights, server, runner)
        sent = _in_order(runner.train(self.broadcast(weights, server), starts=own, uploaded=self.layers[blocks[0]]))
        for place, (block, after) in enumerate(pairwise(blocks), 1):
            units, layer = self.merged(block, [item.message for item in sent], server.round)
            state[UNITS + block] = _table(units, sent, server.clients)
            runner.count_bytes(down=INDEX * sum(map(len, units)))
            own = {
                item.client.number: self.followed(item.message, layer, after, theirs)
                for item, theirs in zip(sent, units, strict=True)
            }
            above = [name for later in blocks[place:] for name in self.layers[later]]
            last = {"lr": runner.lr * self.params.last_lr, "epochs": runner.epochs * self.params.last_epochs}
            how = last if after == blocks[-1] else {}
            sent = _in_order(runner.train(layer, starts=own, trained=above, uploaded=self.layers[after], **how))
        classes = torch.stack([item.client.classes() for item in sent])
        runner.count_bytes(up=INDEX * classes.numel())
        head = {name: _by_class([item.message[name] for item in sent], classes) for name in self.layers[blocks[-1]]}
        return sent[0].message | head, state

    def cut(self, weights: Weights, server: Server, runner: RoundRunner) -> dict[int, Weights]:
        """What each participant makes of the global network: its own units of it; in round 1 all of it."""
        found = {number: dict(weights) for number in runner.clients} if server.state else {}
        for block, after in pairwise(self.layers if found else ()):
            weight, (into, *_) = self.layers[block][0], self.layers[after]
            table = server.state[UNITS + block].cpu()
            runner.count_bytes(down=INDEX * len(found) * table.shape[1])
            for number, own in found.items():
                units = table[number]
                own |= {name: own[name][units] for name in self.layers[block]}
                own[into] = _inputs(own[into], len(weights[weight]))[:, units].reshape(len(own[into]), -1, *own[into].shape[2:])
        return found

    def merged(self, block: str, networks: Sequence[Weights], round: int) -> tuple[list[np.ndarray], Weights]:
        """Which global unit (L_j,) each unit of the networks' block is, and the global block. Raises Diverged where one of the
        networks is not finite: such a unit is like no other."""
        given, like = self.params, {name: networks[0][name] for name in self.layers[block]}
        clients = [np.hstack([_rows(network[name]) for name in like]) for network in networks]
        if not all(np.isfinite(own).all() for own in clients):
            raise Diverged(block)
        mean = self.mean(block, clients[0].shape[1])
        prior = Prior(mean, given.sigma, given.sigma0, given.gamma, given.posterior, given.grow)
        units = match(clients, prior, given.iterations, rng.numpy_generator(self.seed, f"matching {block}", round))
        totals, counts = summed(clients, units)
        values = torch.from_numpy(totals / counts[:, None] if given.units == "mean" else prior.unit(totals, counts))
        parts = values.split([tensor[0].numel() for tensor in like.values()], 1)
        return units, {
            name: part.to(tensor).reshape(-1, *tensor.shape[1:])
            for (name, tensor), part in zip(like.items(), parts, strict=True)
        }

    def mean(self, block: str, length: int) -> np.ndarray:
        """The prior's, of a unit: its incoming weights and then its bias."""
        mean = np.zeros(length)
        if len(self.layers[block]) > 1:
            first = block == next(iter(self.layers))
            mean[-1 if first or self.params.posterior == "paper" else 0] = BIAS
        return mean

    def followed(self, own: Weights, layer: Weights, after: str, units: np.ndarray) -> Weights:
        """A client's network with the global `layer`, by whose units the inputs of the block `after` it are sorted; those of
        units that the client has not are 0."""
        into, width = self.layers[after][0], len(next(iter(layer.values())))
        known = _inputs(own[into], len(units))
        inputs = known.new_zeros(len(known), width, known.shape[2])
        inputs[:, torch.from_numpy(units).to(known.device)] = known
        return own | layer | {into: inputs.reshape(len(known), -1, *own[into].shape[2:])}


def _in_order(updates: Iterable[ClientUpdate]) -> list[ClientUpdate]:
    """By the clients' numbers."""
    return sorted(updates, key=lambda item: item.client.number)


def _rows(tensor: Tensor) -> np.ndarray:
    """A row for each unit."""
    return tensor.reshape(len(tensor), -1).double().cpu().numpy()


def _inputs(weight: Tensor, units: int) -> Tensor:
    """A layer's weights as (own units, `units` of the layer before, their weights): of a kernel, or of the places of a map."""
    return weight.reshape(len(weight), units, -1)


def _table(units: Sequence[np.ndarray], sent: Sequence[ClientUpdate], clients: int) -> Tensor:
    """The global units of every client (clients, units): of one that did not take part those that most have."""
    popular = np.argsort(-np.bincount(np.concatenate(units)), kind="stable")[: len(units[0])]
    table = np.tile(np.sort(popular), (clients, 1))
    for item, own in zip(sent, units, strict=True):
        table[item.client.number] = own
    return torch.from_numpy(table)


def _by_class(tensors: Sequence[Tensor], classes: Tensor) -> Tensor:
    """Mean of tensors (classes, ...), for each class weighted by the clients' images of it, `classes` (clients, classes)."""
    images = classes.double()
    images[:, classes.sum(0) == 0] = 1
    shares = (images / images.sum(0)).to(tensors[0].device)
    return sum(
        share.view(-1, *[1] * (tensor.dim() - 1)) * tensor.double() for share, tensor in zip(shares, tensors, strict=True)
    ).to(tensors[0].dtype)
