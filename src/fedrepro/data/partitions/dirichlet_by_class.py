"""Dirichlet by class (hetero-dir of Yurochkin et al. 2019 and FedMA): each class's shares are drawn from Dir(alpha).

A client that already holds its fair number of images gets none of the class; the whole is drawn anew until every client has
`min_size` images.
"""

import numpy as np

from fedrepro.config.types import Count, Frozen, Positive
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import Labelled

TRIES = 1000


class Params(Frozen):
    clients: Count
    alpha: Positive
    min_size: Count = 10


def split(params: Params, train: Labelled, draw: np.random.Generator) -> list[np.ndarray]:
    for _ in range(TRIES):
        parts = _draw(params, train, draw)
        if parts is not None and min(len(part) for part in parts) >= params.min_size:
            return parts
    raise UserError(
        f"partition dirichlet_by_class: no draw in {TRIES} gave each of {params.clients} clients {params.min_size} of "
        f"{len(train.labels)} images; lower min_size or clients, or raise alpha (got {params.alpha})"
    )


def _draw(params: Params, train: Labelled, draw: np.random.Generator) -> list[np.ndarray] | None:
    labels = train.labels
    parts = [np.empty(0, dtype=np.int64) for _ in range(params.clients)]
    for label in range(train.classes):
        images = draw.permutation(np.flatnonzero(labels == label))
        shares = draw.dirichlet(np.full(params.clients, params.alpha))
        shares = shares * np.array([len(part) < len(labels) / params.clients for part in parts])
        if shares.sum() == 0:  # every open client drew nothing (underflow at a tiny alpha)
            return None
        ends = np.round(np.cumsum(shares / shares.sum()) * len(images)).astype(int)
        parts = [np.concatenate(pair) for pair in zip(parts, np.split(images, ends[:-1]), strict=True)]
    return parts
