"""Dirichlet by class (hetero-dir of Yurochkin et al. 2019 and FedMA): each class's shares are drawn
from Dir(alpha).

A client that already has its fair number of images gets none of the class. The whole draw is
repeated until every client has `min_size` images.
"""

from typing import NamedTuple

import numpy as np

from fedrepro.config.types import Count, Positive
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients

TRIES = 1000


class Params(Clients):
    alpha: Positive
    min_size: Count = 10


def check(params: Params, images: int, classes: int) -> None:
    if params.min_size * params.clients > images:
        most = images // params.clients
        raise UserError(
            f"partition dirichlet_by_class: min_size: at most {most} of {images} images (got "
            f"{params.min_size})"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    members, best = [np.flatnonzero(train.labels == label) for label in range(train.classes)], 0
    for _ in range(TRIES):
        drawn = _draw(params, members, draw)
        smallest = int(np.diff(drawn.ends, axis=1, prepend=0).sum(0).min()) if drawn else 0
        if drawn and smallest >= params.min_size:
            chunks = [
                np.split(images, ends[:-1])
                for images, ends in zip(drawn.images, drawn.ends, strict=True)
            ]
            return [np.concatenate(own) for own in zip(*chunks, strict=True)]
        best = max(best, smallest)
    lower = f"lower it to {best}, or " if best else ""
    raise UserError(
        f"partition dirichlet_by_class: min_size: in {TRIES} draws of {len(train.labels)} images "
        f"for {params.clients} clients the smallest share had at most {best} (got "
        f"{params.min_size}); {lower}set fewer clients or a larger alpha"
    )


class _Draw(NamedTuple):
    images: list[np.ndarray]  # of each class, in random order
    ends: np.ndarray  # (classes, clients): where each client's part of them ends


def _draw(params: Params, members: list[np.ndarray], draw: np.random.Generator) -> _Draw | None:
    total = sum(map(len, members))
    images, ends, sizes = (
        [],
        np.zeros((len(members), params.clients), int),
        np.zeros(params.clients, int),
    )
    for label, own in enumerate(members):
        images.append(draw.permutation(own))
        shares = draw.dirichlet(np.full(params.clients, params.alpha)) * (
            sizes < total / params.clients
        )
        if shares.sum() == 0:  # every open client drew nothing (underflow at a tiny alpha)
            return None
        ends[label] = np.round(np.cumsum(shares / shares.sum()) * len(own))
        sizes += np.diff(ends[label], prepend=0)
    return _Draw(images, ends)
