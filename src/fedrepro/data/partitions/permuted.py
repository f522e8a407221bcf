"""Uniform parts, and each client sees its images under one fixed random order of the pixels (permuted MNIST). With
`whole: true` every client has all images, and all test images, each under its own order."""

import numpy as np

from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions import iid


class Params(iid.Params):
    permute_pixels: bool = True
    whole: bool = False


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    return _everything(params, train) if params.whole else iid.split(params, train, draw)


def split_test(
    params: Params, parts: list[np.ndarray], train: LabelledSubset, test: LabelledSubset, draw: np.random.Generator
) -> list[np.ndarray]:
    return _everything(params, test) if params.whole else iid.split_test(params, parts, train, test, draw)


def _everything(params: Params, images: LabelledSubset) -> list[np.ndarray]:
    return [np.arange(len(images.labels)) for _ in range(params.clients)]
