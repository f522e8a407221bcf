"""Natural owners: each client is one of the devices that the data come from, with that device's train and test images."""

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset

BY_DEVICE = True


class Params(Frozen):
    clients: Count  # so many of the devices, at random where there are more


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    devices = np.unique(train.owners)
    if params.clients > len(devices):
        raise UserError(f"partition natural: clients: at most the {len(devices)} devices of the data (got {params.clients})")
    return [np.flatnonzero(train.owners == device) for device in np.sort(draw.permutation(devices)[: params.clients])]


def split_test(
    params: Params, parts: list[np.ndarray], train: LabelledSubset, test: LabelledSubset, draw: np.random.Generator
) -> list[np.ndarray]:
    return [np.flatnonzero(test.owners == train.owners[part[0]]) for part in parts]
