"""Natural partition: each client is one of the devices that the data come from, with its training
and test images."""

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset

BY_DEVICE = True


class Params(Frozen):
    clients: Count  # if there are more devices, a random choice of so many


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    assert train.owners is not None  # BY_DEVICE
    devices = np.unique(train.owners)
    if params.clients > len(devices):
        raise UserError(
            f"partition natural: clients: at most the {len(devices)} devices of the data (got "
            f"{params.clients})"
        )
    return [
        np.flatnonzero(train.owners == device)
        for device in np.sort(draw.permutation(devices)[: params.clients])
    ]


def split_test(
    params: Params,
    parts: list[np.ndarray],
    train: LabelledSubset,
    test: LabelledSubset,
    draw: np.random.Generator,
) -> list[np.ndarray]:
    assert train.owners is not None and test.owners is not None  # BY_DEVICE
    return [np.flatnonzero(test.owners == train.owners[part[0]]) for part in parts]
