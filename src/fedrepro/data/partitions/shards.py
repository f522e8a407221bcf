"""Label-sorted shards (McMahan et al. 2017): sort by label, cut into clients x shards equal pieces, deal them out at random."""

import numpy as np

from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset


class Params(Frozen):
    clients: Count
    shards: Count = 2  # per client


def check(params: Params, images: int, classes: int) -> None:
    total = params.clients * params.shards
    if total > images:
        raise UserError(
            f"partition shards: {params.clients} clients x {params.shards} shards need {total} images, got {images}"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    labels = train.labels
    total = params.clients * params.shards
    # the shuffle before the stable sort decides which images of a label stand together
    shuffled = draw.permutation(len(labels))
    pieces = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], total)
    dealt = draw.permutation(total).reshape(params.clients, params.shards)
    return [np.concatenate([pieces[shard] for shard in mine]) for mine in dealt]
