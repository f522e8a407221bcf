"""Psi-Net: Yu et al., Heterogeneous Federated Learning, 2020 (later Fed2), Eqs. 3 and 6-9. No code
of the authors is known.

The network is split into groups (`models.with_groups`), each with classes of its own. Layers before
the block `grouped_from` are shared; from there on there are group convolutions, groups of dense
units and decoupled scores. The server averages shared layers over all participants (Eq. 7) and each
group over the clients that have one of its classes (Eq. 8), so that no units have to be matched;
the groups together are the new network (Eq. 9). A group without clients keeps its weights. The
weights of clients are the usual ones, renormalised within a group; statistics of batch
normalisation are averaged like weights, counters are rounded.

Where the paper leaves a choice:
- groups     null: one for each class; fewer groups have several classes each, as `classes` says
- norm       after grouped convolutions: `group` normalisation within each group, or the `model`'s
  own
- trim       a client without any class of a group neither trains nor sends it (Eq. 6); false: all
  clients send all groups
- softmax    of a client that trims: over the classes of its own groups (`held`), as in a network
             without the other groups; or over `all`, which trains the other groups locally, without
             sending them. That has no fixed point: changes that lower the scores of absent classes
             are not sent, those that raise the others are, so that scores grow steadily

A trimmed group has no gradient, but weight decay and momentum still change it; that is not sent.
Clients are tested with all groups. With one group and the model's norm this is FedAvg.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from fedrepro.algorithms.base import (
    Batch,
    Client,
    ClientOutput,
    ClientUpdate,
    FedAvg,
    Weights,
    missing_dense_layer,
    weighted_mean,
)
from fedrepro.config.types import Count, Frozen
from fedrepro.models import Block, ClassMap, Head, Net, Outputs, with_groups

HELD = "groups"  # name in a message: which groups it contains, (groups,) of bool


class PsiNet(FedAvg):
    class Params(Frozen):
        groups: Count | None = None
        grouped_from: str | None = None  # a block of the model; null: the first dense one
        classes: ClassMap = "consecutive"
        norm: Literal["group", "model"] = "group"
        trim: bool = True
        softmax: Literal["held", "all"] = "held"

    params: Params

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        return missing_dense_layer(blocks)

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        params = self.params
        self.task.require_class_scores("algorithm psi_net")
        return with_groups(
            net,
            generator,
            groups=params.groups,
            start=params.grouped_from,
            classes=params.classes,
            norm=params.norm == "group",
            where="algorithm psi_net",
        )

    @property
    def grouped(self) -> frozenset[str]:
        """The names of the tensors that are averaged group by group."""
        return self.net.groups.weights if self.net.groups else frozenset()

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return the mask (classes,) of the classes that the local softmax leaves out."""
        groups = self.net.groups
        if (
            groups is None
            or not groups.weights
            or not self.params.trim
            or self.params.softmax == "all"
        ):
            return {}
        return {"trimmed": ~groups.expand_to_classes(groups.present(client.classes()))}

    def task_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        if "trimmed" in batch.constants:
            outputs = outputs._replace(
                logits=outputs.logits.masked_fill(batch.constants["trimmed"], -torch.inf)
            )
        return super().task_loss(outputs, batch)

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        """Return all shared layers, and of grouped ones the client's groups (held, N / groups,
        ...)."""
        groups = self.net.groups
        if groups is None or not groups.weights:
            return ClientOutput(weights)
        held = groups.present(client.classes())
        held = held if self.params.trim else torch.ones_like(held)
        message = {
            name: groups.split(tensor)[held] if name in self.grouped else tensor
            for name, tensor in weights.items()
        }
        return ClientOutput(message | {HELD: held})

    def average(self, like: Weights, updates: Iterable[ClientUpdate]) -> Weights:
        groups = self.net.groups
        if groups is None or not groups.weights:
            return super().average(like, updates)
        shared = {name: tensor for name, tensor in like.items() if name not in self.grouped}
        grouped = GroupMean(
            {name: groups.split(tensor) for name, tensor in like.items() if name in self.grouped},
            len(groups),
        )
        means = weighted_mean(shared, grouped.add_each(updates))
        means |= {name: tensor.flatten(0, 1) for name, tensor in grouped.mean().items()}
        return {name: like[name] if name in self.fixed else means[name] for name in like}


class GroupMean:
    """The running mean of each group over the clients that send it; tensors in `like` have the
    groups as first axis."""

    def __init__(self, like: Weights, groups: int) -> None:
        self.like = like
        self.totals = {
            name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in like.items()
        }
        device = next(iter(like.values())).device
        # of the clients that sent each group
        self.shares = torch.zeros(groups, dtype=torch.float64, device=device)
        # whether some client did not send a group
        self.incomplete = torch.zeros(groups, dtype=torch.bool, device=device)

    def add_each(self, updates: Iterable[ClientUpdate]) -> Iterable[ClientUpdate]:
        """Yield the updates, and add each to the mean."""
        for update in updates:
            held = update.message[HELD]
            self.shares += update.share * held.double()
            self.incomplete |= ~held
            for name, total in self.totals.items():
                total[held] = total[held].add(update.message[name], alpha=update.share)
            yield update

    def mean(self) -> Weights:
        """Return the means.

        A group that only some clients sent is divided by their total share; one that all sent is
        not, since its share is 1 up to rounding; one that none sent keeps its value in `like`.
        """
        means = {}
        for name, total in self.totals.items():
            along = (-1, *[1] * (total.dim() - 1))
            share = torch.where(self.incomplete & (self.shares > 0), self.shares, 1.0).view(along)
            mean = torch.where(self.shares.view(along) > 0, total / share, self.like[name].double())
            means[name] = mean.to(self.like[name].dtype)
        return means
