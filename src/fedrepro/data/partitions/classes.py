"""Disjoint classes: each class belongs to one client (FedMMD Fig. 4a and c: two clients, 5 + 5
classes).

`redraw` distributes the classes again in every round, as the authors' code does for CIFAR-10; the
paper reads as fixed. `groups` lists the classes of each client, e.g. [[0, 1, 2, 3, 4], [5, 6, 7, 8,
9]]; without it they are drawn at random.
"""

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset


class Params(Frozen):
    clients: Count = 2
    redraw: bool = False
    groups: tuple[tuple[int, ...], ...] | None = None


def check(params: Params, images: int, classes: int) -> None:
    if params.clients > classes:
        raise UserError(
            f"partition classes: clients: {params.clients} clients cannot split {classes} "
            f"classes; at most {classes}"
        )
    if params.groups is None:
        return
    if params.redraw:
        raise UserError(
            "partition classes: groups: fixed groups and redraw: true exclude each other"
        )
    listed = sorted(label for group in params.groups for label in group)
    if len(params.groups) != params.clients or listed != list(range(classes)):
        raise UserError(
            f"partition classes: groups: need {params.clients} groups that hold each of the "
            f"{classes} classes once"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    labels, classes = train.labels, train.classes
    if params.redraw:
        # which `Partition` distributes in each round
        return [np.flatnonzero(labels == label) for label in range(classes)]
    groups = params.groups or np.array_split(draw.permutation(classes), params.clients)
    return [np.flatnonzero(np.isin(labels, list(group))) for group in groups]
