"""Uniform parts: a random equal split of the train set (McMahan et al. 2017, "IID")."""

import numpy as np

from fedrepro.datasets import Labelled
from fedrepro.fields import Count, Frozen


class Params(Frozen):
    clients: Count


def split(params: Params, train: Labelled, draw: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(draw.permutation(len(train.labels)), params.clients)
