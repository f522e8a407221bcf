"""Permuted pixels (permuted MNIST): an IID split, and a fixed random pixel order for each client.
With `whole: true` every client has all training and test images, in its own pixel order."""

import numpy as np

from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions import iid


class Params(iid.Params):
    permute_pixels: bool = True
    whole: bool = False


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    return _all_images(params, train) if params.whole else iid.split(params, train, draw)


def split_test(
    params: Params,
    parts: list[np.ndarray],
    train: LabelledSubset,
    test: LabelledSubset,
    draw: np.random.Generator,
) -> list[np.ndarray]:
    return (
        _all_images(params, test)
        if params.whole
        else iid.split_test(params, parts, train, test, draw)
    )


def _all_images(params: Params, images: LabelledSubset) -> list[np.ndarray]:
    return [np.arange(len(images.labels)) for _ in range(params.clients)]
