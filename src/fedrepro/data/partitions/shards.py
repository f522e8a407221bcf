"""Label-sorted shards (McMahan et al. 2017): images sorted by label, cut into equal pieces,
`shards` random ones per client."""

import numpy as np

from fedrepro.config.types import Count
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients


class Params(Clients):
    shards: Count = 2  # per client


def check(params: Params, images: int, classes: int) -> None:
    total = params.clients * params.shards
    if total > images:
        raise UserError(
            f"partition shards: {params.clients} clients x {params.shards} shards need {total} "
            f"images, got {images}"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    labels = train.labels
    total = params.clients * params.shards
    # the shuffle before the stable sort makes the shards of a label random
    shuffled = draw.permutation(len(labels))
    shards = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], total)
    owned = draw.permutation(total).reshape(params.clients, params.shards)
    return [np.concatenate([shards[number] for number in numbers]) for numbers in owned]
