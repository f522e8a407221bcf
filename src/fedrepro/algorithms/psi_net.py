"""Psi-Net: Yu et al., Heterogeneous Federated Learning, 2020 (later Fed2), Eqs. 3 and 6-9. No code of the authors is known.

The network is split into groups (`models.regulated`), each with classes of its own: shared layers below, from the block
`grouped_from` on group convolutions, groups of dense units and decoupled scores. The server averages shared layers over all
participants (Eq. 7) and each group over those that hold one of its classes (Eq. 8), so that nothing has to be matched; the
groups together are the new network (Eq. 9). A group that nobody holds keeps its weights. Shares are those of all methods,
renormalised among the holders; statistics of batch normalisation are averaged like weights, counters are rounded.

Where the paper leaves a choice:
- groups     null: one for each class; fewer of them have several classes each, `classes` says which
- norm       after grouped convolutions: `group` normalisation within each group, or what the `model` has there
- trim       a client without any class of a group neither trains nor sends it (Eq. 6); false: everyone counts for every group
- softmax    of a client that trims: over the classes of the groups `held`, as a network without the others has it; or
             over `all`, where the other groups are trained locally, but not sent. That has no fixed point: what lowers the
             scores of absent classes is not sent, what raises the others is, so that scores grow from round to round

A trimmed group gets no slope, yet weight decay and momentum pass over it; what comes of that is not sent. Clients are tested
with all groups. With one group and the model's norm this is FedAvg.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, Client, ClientOutput, ClientUpdate, FedAvg, Weights, weighted_mean
from fedrepro.config.types import Count, Frozen
from fedrepro.models import ClassMap, Net, Outputs, with_groups

HELD = "groups"  # in a message: which it brings (groups,)


class Algorithm(FedAvg):
    class Params(Frozen):
        groups: Count | None = None
        grouped_from: str | None = None  # a block of the model; null: the first dense one
        classes: ClassMap = "consecutive"
        norm: Literal["group", "model"] = "group"
        trim: bool = True
        softmax: Literal["held", "all"] = "held"

    fedavg_params: ClassVar[dict] = {"groups": 1, "norm": "model"}

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        given = self.params
        self.task.needs_scores("algorithm psi_net")
        return with_groups(
            net,
            generator,
            groups=given.groups,
            start=given.grouped_from,
            classes=given.classes,
            norm=given.norm == "group",
            where="algorithm psi_net",
        )

    @property
    def grouped(self) -> frozenset[str]:
        """The names of what is averaged group by group."""
        return self.net.groups.weights if self.net.groups else frozenset()

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Which classes (classes,) the local softmax leaves out."""
        if not self.grouped or not self.params.trim or self.params.softmax == "all":
            return {}
        groups = self.net.groups
        return {"trimmed": ~groups.of_classes(groups.present(client.classes()))}

    def task_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        if "trimmed" in batch.constants:
            outputs = outputs._replace(logits=outputs.logits.masked_fill(batch.constants["trimmed"], -torch.inf))
        return super().task_loss(outputs, batch)

    def finish(self, weights: Weights, received: Weights, client: Client) -> ClientOutput:
        """All of the shared layers, of the grouped ones what the client holds (held, N / groups, ...)."""
        if not self.grouped:
            return ClientOutput(weights)
        groups = self.net.groups
        held = groups.present(client.classes())
        held = held if self.params.trim else torch.ones_like(held)
        message = {name: groups.split(tensor)[held] if name in self.grouped else tensor for name, tensor in weights.items()}
        return ClientOutput(message | {HELD: held})

    def average(self, like: Weights, updates: Iterable[ClientUpdate]) -> Weights:
        shared = {name: tensor for name, tensor in like.items() if name not in self.grouped}
        groups = Grouped({name: self.net.groups.split(like[name]) for name in like if name in self.grouped})
        found = weighted_mean(shared, groups.watched(updates)) | {
            name: tensor.flatten(0, 1) for name, tensor in groups.mean().items()
        }
        return {name: like[name] if name in self.fixed else found[name] for name in like}


class Grouped:
    """The mean of each group over those that send it; `like` has the groups as first axis."""

    def __init__(self, like: Weights) -> None:
        self.like = like
        self.totals = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in like.items()}
        self.shares: Tensor | None = None  # of those that sent each group (groups,)
        self.lacked: Tensor | None = None  # whether somebody did not send it

    def watched(self, updates: Iterable[ClientUpdate]) -> Iterable[ClientUpdate]:
        """The same, counted as they pass."""
        for item in updates:
            if self.like:
                self._add(item)
            yield item

    def _add(self, item: ClientUpdate) -> None:
        held = item.message[HELD]
        if self.shares is None:
            self.shares, self.lacked = torch.zeros_like(held, dtype=torch.float64), torch.zeros_like(held)
        self.shares += item.share * held.double()
        self.lacked |= ~held
        for name, total in self.totals.items():
            total[held] = total[held].add(item.message[name], alpha=item.share)

    def mean(self) -> Weights:
        """A group that all sent is not divided by its share, which is 1 but for rounding; one that nobody sent stays."""
        if self.shares is None:
            return {}
        found = {}
        for name, total in self.totals.items():
            along = (-1, *[1] * (total.dim() - 1))
            share = torch.where(self.lacked & (self.shares > 0), self.shares, 1.0).view(along)
            kept = torch.where(self.shares.view(along) > 0, total / share, self.like[name].double())
            found[name] = kept.to(self.like[name].dtype)
        return found
