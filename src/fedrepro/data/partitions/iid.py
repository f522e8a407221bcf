"""IID: a random equal split of the training set (McMahan et al. 2017). With `tests: random` the
test set is split in the same way, else each client's test part has the class proportions of its
training part."""

from typing import Literal

import numpy as np

from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients, disjoint_test_parts


class Params(Clients):
    tests: Literal["dealt", "random"] = "dealt"


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(draw.permutation(len(train.labels)), params.clients)


def split_test(
    params: Params,
    parts: list[np.ndarray],
    train: LabelledSubset,
    test: LabelledSubset,
    draw: np.random.Generator,
) -> list[np.ndarray]:
    if params.tests == "random":
        return np.array_split(draw.permutation(len(test.labels)), params.clients)
    return disjoint_test_parts(params, parts, train, test, draw)
