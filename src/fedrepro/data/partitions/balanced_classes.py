"""N x C (Psi-Net): N clients with exactly C classes each; the images of every class are split among
N*C/classes clients.

With `size` a client keeps so many images of each of its classes and the rest are unused, so that
all clients have the same number of images even if classes do not.

The classes of a client are drawn client by client, preferring those with most places left. That is
random and balanced but not uniform: with N x 5 of ten classes every second client has the classes
that the one drawn before it lacks. With `mixed` pairs of clients then trade classes at random until
each balanced assignment is as likely as any other (Strona et al., A fast and unbiased procedure to
randomize ecological binary matrices with fixed row and column totals, Nature Communications
2014)."""

import numpy as np

from fedrepro.config.types import Count
from fedrepro.core.errors import UserError
from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import Clients

TRIES = 1000
TRADES = 100  # for each client


class Params(Clients):
    classes_per_client: Count
    size: Count | None = None  # null: all of a client's share
    mixed: bool = False


def check(params: Params, images: int, classes: int) -> None:
    places = params.clients * params.classes_per_client
    if params.classes_per_client > classes:
        raise UserError(
            f"partition balanced_classes: classes_per_client: at most {classes} (got "
            f"{params.classes_per_client})"
        )
    if places % classes:
        raise UserError(
            f"partition balanced_classes: clients x classes_per_client = {places} must be a "
            f"multiple of {classes} classes"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    labels, classes = train.labels, train.classes
    owners = _owners(params, classes, draw)
    owners = _trade_classes(owners, params.clients, draw) if params.mixed else owners
    parts: list[list[np.ndarray]] = [[] for _ in range(params.clients)]
    for label in range(classes):
        images = draw.permutation(np.flatnonzero(labels == label))
        if 0 < len(images) < len(owners[label]):
            problem = f"class {label} has {len(images)} images for {len(owners[label])} clients"
            raise UserError(
                f"partition balanced_classes: {problem}; set fewer clients or "
                f"classes_per_client, or more train_images"
            )
        for client, chunk in zip(
            owners[label], np.array_split(images, len(owners[label])), strict=True
        ):
            if len(chunk) < (params.size or 0):
                raise UserError(
                    f"partition balanced_classes: size: at most {len(chunk)}, of class {label} "
                    f"(got {params.size})"
                )
            parts[client].append(chunk[: params.size])
    return [np.concatenate(part) for part in parts]


def _owners(params: Params, classes: int, draw: np.random.Generator) -> list[list[int]]:
    """Draw the clients of each class, equally many for each; a draw that gets stuck is repeated."""
    for _ in range(TRIES):
        free = np.full(classes, params.clients * params.classes_per_client // classes)
        owners: list[list[int]] = [[] for _ in range(classes)]
        for client in draw.permutation(params.clients):
            # prefer classes with most free places, ties at random, so that the last clients find
            # enough classes
            order = np.lexsort((draw.random(classes), -free))[: params.classes_per_client]
            if free[order].min() == 0:
                break
            free[order] -= 1
            for label in order:
                owners[label].append(int(client))
        if not free.any():
            return owners
    raise UserError(
        f"partition balanced_classes: no balanced assignment in {TRIES} tries; change clients or "
        f"classes_per_client"
    )


def _trade_classes(
    owners: list[list[int]], clients: int, draw: np.random.Generator
) -> list[list[int]]:
    """Let random pairs of clients pool the classes that only one of them has and divide these again
    at random."""
    classes = [
        {label for label, clients_of in enumerate(owners) if client in clients_of}
        for client in range(clients)
    ]
    for _ in range(TRADES * clients if clients > 1 else 0):
        one, other = draw.choice(clients, 2, replace=False)
        pool = draw.permutation(sorted(classes[one] ^ classes[other]))
        both, count = classes[one] & classes[other], len(classes[one] - classes[other])
        classes[one], classes[other] = (
            both | set(pool[:count].tolist()),
            both | set(pool[count:].tolist()),
        )
    return [
        [client for client in range(clients) if label in classes[client]]
        for label in range(len(owners))
    ]
