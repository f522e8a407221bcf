"""Stratified IID: each class is split evenly among the clients (Chen et al. 2020, code: medical
sets, IID)."""

import numpy as np

from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients

Params = Clients


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    """Distribute the images class by class in turn, so that clients' totals differ by one image at
    most."""
    images = np.concatenate(
        [draw.permutation(np.flatnonzero(train.labels == label)) for label in range(train.classes)]
    )
    owner = np.arange(len(images)) % params.clients
    order = draw.permutation(params.clients)
    return [images[owner == client] for client in order]
