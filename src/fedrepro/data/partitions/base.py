"""Partitions: assignments of training and test images to clients, each stored as a file.

Each module is one way to partition. It declares `Params`, which extend `Clients`, and
`split(params, train, draw)`, which returns one array of training indices per client. It may declare

- `split_test(params, parts, train, test, draw)`, which returns the test parts. By default the test
  set is split too, so that every client's test part has the class proportions of its training part.
  Needed if clients share images.
- `check(params, images, classes)`, which raises UserError for options that the numbers of training
  images and classes rule out. It is called for every scale before any work.
- `check_extent(params, train, test)`, which raises UserError for options that the whole data set's
  numbers of images rule out.
- `BY_DEVICE = True`, if it needs the device of each image.

An option that names a file is a `types.InputFile`, so that a run's name depends on the content of
the file.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.config import registry
from fedrepro.config.params import PartitionConfig, Proxy, RunConfig, Validation
from fedrepro.config.types import Choice, Count, Frozen
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write
from fedrepro.data.datasets.base import Dataset, DatasetLabels, LabelledSubset


class Clients(Frozen):
    """The options that every partition has."""

    clients: Count


@dataclass(frozen=True)
class Partition:
    """Parts of a data set and their clients. Indices count in the images in use (`subset`). Parts
    are disjoint, unless a partition lets clients share images.

    Each client has one part, but with `redraw_seed` the parts are distributed again in every round.
    """

    train: list[np.ndarray]  # one int64 array of train indices per part
    test: list[np.ndarray]  # one int64 array of test indices per part
    clients: int
    permutations: np.ndarray | None = None  # (clients, H*W) pixel order of each client's images
    redraw_seed: int | None = None
    proxy: np.ndarray | None = None  # int64 train indices of the images that the server holds
    validation: np.ndarray | None = None  # int64 train indices of the images that nobody trains on
    # those of each part, if they are held out per client
    client_validation: list[np.ndarray] | None = None

    def parts_of(self, client: int, round: int) -> list[int]:
        """Return the parts that a client has in a round."""
        if self.redraw_seed is None:
            return [client]
        order = rng.numpy_generator(self.redraw_seed, "redraw", round).permutation(len(self.train))
        return sorted(int(part) for part in np.array_split(order, self.clients)[client])

    def train_indices(self, client: int, round: int) -> np.ndarray:
        return np.concatenate([self.train[part] for part in self.parts_of(client, round)])

    def test_indices(self, client: int, round: int) -> np.ndarray:
        return np.concatenate([self.test[part] for part in self.parts_of(client, round)])

    def validation_indices(self, client: int, round: int) -> np.ndarray:
        """Return the train indices of a client's own validation images; none unless they are held
        out per client."""
        held_out = self.client_validation or [np.empty(0, np.int64)] * len(self.train)
        return np.concatenate([held_out[part] for part in self.parts_of(client, round)])

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """Return the number of training images in round 1, (clients, classes), for the heat map."""
        rows = [
            np.bincount(labels[self.train_indices(client, 1)], minlength=classes)
            for client in range(self.clients)
        ]
        return np.stack(rows)


def mean_client_images(choice: Choice, images: int) -> float:
    """Return how many of `images` training images a client has on average: its share, or all if
    every client has all."""
    return images if choice.options.get("whole") else images / choice.options["clients"]


def subset(
    dataset: Dataset | DatasetLabels, train: int | None, test: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training and of the test images in use. They are the first n of a
    fixed shuffle, so that a larger n contains the smaller; None takes all."""
    chosen: list[np.ndarray] = []
    for name, labels, count in (
        ("train", dataset.train.labels, train),
        ("test", dataset.test.labels, test),
    ):
        if count is not None and count > len(labels):
            raise UserError(
                f"{name}_images: {dataset.name} has {len(labels)} {name} images (got {count})"
            )
        order = rng.numpy_generator(0, f"subset-{name}").permutation(len(labels))
        chosen.append(np.sort(order[:count]))
    return chosen[0], chosen[1]


def proxy_size(proxy: Proxy, images: int) -> int:
    """Return the number of proxy images that the server gets out of `images` training images in
    use."""
    return max(1, round(proxy.share * images))


def validation_size(validation: Validation | None, images: int) -> int:
    """Return the number of images held out of `images` training images in use."""
    return max(1, round(validation.share * images)) if validation else 0


def validation_images(config: RunConfig | PartitionConfig, images: int) -> np.ndarray | None:
    """Return the indices of the training images in use that no client gets, in order; None if there
    are none."""
    if config.validation is None or config.validation.per_client:
        return None
    order = rng.numpy_generator(config.seed, "validation").permutation(images)
    return np.sort(order[: validation_size(config.validation, images)])


def proxy_images(config: RunConfig | PartitionConfig, images: int) -> np.ndarray | None:
    """Return the indices of the training images in use that the server has, in order; None without
    proxy images."""
    if config.proxy is None:
        return None
    free, size = (
        _without(validation_images(config, images), images),
        proxy_size(config.proxy, images),
    )
    return np.sort(free[rng.numpy_generator(config.seed, "proxy").permutation(len(free))[:size]])


def _without(left_out: np.ndarray | None, images: int) -> np.ndarray:
    return np.setdiff1d(np.arange(images), [] if left_out is None else left_out)


def images_for_clients(config: RunConfig | PartitionConfig, images: int) -> np.ndarray:
    """Return the indices of the training images in use that clients may have, in order."""
    every, proxy = _without(validation_images(config, images), images), proxy_images(config, images)
    return (
        every
        if proxy is None or not (config.proxy and config.proxy.removed)
        else np.setdiff1d(every, proxy)
    )


def for_run(config: RunConfig | PartitionConfig, dataset: Dataset | DatasetLabels) -> Partition:
    """Draw the partition that a run's settings name, over the images that the run uses."""
    train, test = subset(dataset, config.train_images, config.test_images)
    index = images_for_clients(config, len(train))
    sets = dataset.train.select(train[index]), dataset.test.select(test)
    drawn = create(config.partition, *sets, pixels=dataset.pixels, seed=config.seed)
    apart = {
        "proxy": proxy_images(config, len(train)),
        "validation": validation_images(config, len(train)),
    }
    partition = replace(drawn, train=[index[part] for part in drawn.train], **apart)
    return (
        _hold_out_per_client(partition, config)
        if config.validation and config.validation.per_client
        else partition
    )


def _hold_out_per_client(partition: Partition, config: RunConfig | PartitionConfig) -> Partition:
    """Take its share, to the nearest number, of validation images from each part. What one holds
    out, no client and no server trains on."""
    assert config.validation is not None
    draw, chosen = rng.numpy_generator(config.seed, "client validation"), np.empty(0, np.int64)
    for part in partition.train:
        left = np.setdiff1d(part, chosen)
        more = max(0, round(config.validation.share * len(part)) - (len(part) - len(left)))
        chosen = np.union1d(chosen, left[draw.permutation(len(left))[:more]])
    train = [np.setdiff1d(part, chosen) for part in partition.train]
    if without := sum(len(part) == 0 for part in train):
        raise UserError(
            f"validation.share: leaves {without} clients no images (got "
            f"{config.validation.share:g})"
        )
    own = [np.intersect1d(part, chosen) for part in partition.train]
    proxy = None if partition.proxy is None else np.setdiff1d(partition.proxy, chosen)
    return replace(partition, train=train, validation=chosen, client_validation=own, proxy=proxy)


def check(choice: Choice, images: int, classes: int, by_device: bool = True) -> None:
    """Raise UserError for options that the numbers of training images and classes rule out.

    Args:
        by_device: whether the data say which device an image comes from.
    """
    module, params = _find(choice)
    if getattr(module, "BY_DEVICE", False) and not by_device:
        raise UserError(
            f"partition {choice.name}: the data do not say which device an image comes from; "
            f"choose another"
        )
    if hasattr(module, "check"):
        module.check(params, images, classes)


def check_extent(choice: Choice, train: int, test: int) -> None:
    """Raise UserError for options that the numbers of training and test images in the data set's
    files rule out."""
    module, params = _find(choice)
    if hasattr(module, "check_extent"):
        module.check_extent(params, train, test)


def _find(choice: Choice) -> tuple[Any, Any]:
    """Return the module of a partition and its parsed options, the module's `Params`."""
    return registry.find("partitions", choice.name), registry.parse_options("partitions", choice)


def create(
    choice: Choice, train: LabelledSubset, test: LabelledSubset, pixels: int, seed: int
) -> Partition:
    """Partition a labelled set: a pure function of its arguments.

    Args:
        pixels: H*W.

    Raises UserError for options that the set rules out.
    """
    module, params = _find(choice)
    if params.clients > len(train.labels):
        raise UserError(
            f"partition {choice.name}: clients: {params.clients} clients cannot share "
            f"{len(train.labels)} train images"
        )
    check(choice, len(train.labels), train.classes, train.owners is not None)
    check_extent(choice, train.total or len(train.labels), test.total or len(test.labels))
    parts = _sorted(module.split(params, train, rng.numpy_generator(seed, "partition")))
    redraw = seed if getattr(params, "redraw", False) else None
    if redraw is None and len(parts) != params.clients:
        raise UserError(
            f"partition {choice.name}: split: {len(parts)} parts for {params.clients} clients"
        )
    _check_indices(
        f"partition {choice.name}: split",
        parts,
        len(train.labels),
        disjoint=not hasattr(module, "split_test"),
    )
    if without := sum(len(part) == 0 for part in parts):
        raise UserError(
            f"partition {choice.name}: clients: {without} of {params.clients} got no images of "
            f"{len(train.labels)}; set fewer clients, or more train_images"
        )
    split_test = getattr(module, "split_test", disjoint_test_parts)
    tests = _sorted(
        split_test(params, parts, train, test, rng.numpy_generator(seed, "partition-test"))
    )
    _check_indices(f"partition {choice.name}: split_test", tests, len(test.labels), disjoint=False)
    permutations = None
    if getattr(params, "permute_pixels", False):
        draw = rng.numpy_generator(seed, "permutation")
        permutations = np.stack([draw.permutation(pixels) for _ in range(params.clients)])
    return Partition(parts, tests, params.clients, permutations, redraw)


def _sorted(parts: list[np.ndarray]) -> list[np.ndarray]:
    return [np.sort(part).astype(np.int64) for part in parts]


def _check_indices(where: str, parts: list[np.ndarray], images: int, disjoint: bool) -> None:
    """Raise UserError unless all images of sorted parts exist and occur once in a part; if
    `disjoint`, once in all parts."""
    for client, part in enumerate(parts):
        if len(part) and not 0 <= part[0] <= part[-1] < images:
            raise UserError(
                f"{where}: part {client}: images {part[0]} to {part[-1]}, expected 0 to "
                f"{images - 1}"
            )
        if (twice := part[1:][np.diff(part) == 0]).size:
            raise UserError(f"{where}: part {client}: image {twice[0]} twice")
    images_of_all = np.sort(np.concatenate(parts)) if disjoint else np.empty(0)
    if (twice := images_of_all[1:][np.diff(images_of_all) == 0]).size:
        remedy = (
            "If clients are to share images, the module of the partition must declare split_test"
        )
        raise UserError(f"{where}: image {twice[0]} is in two parts. {remedy}")


def disjoint_test_parts(
    params: Any,
    parts: list[np.ndarray],
    train: LabelledSubset,
    test: LabelledSubset,
    draw: np.random.Generator,
) -> list[np.ndarray]:
    """Split the test images of each class in proportion to the clients' training images of it, for
    disjoint training parts. The parts are disjoint, and contain all test images of the classes that
    clients have."""
    counts = _counts(parts, train)
    chunks: list[list[np.ndarray]] = [[] for _ in parts]
    for label in range(train.classes):
        if counts[:, label].sum() == 0:
            continue
        images = draw.permutation(np.flatnonzero(test.labels == label))
        ends = np.round(np.cumsum(counts[:, label]) / counts[:, label].sum() * len(images)).astype(
            int
        )
        for own, chunk in zip(chunks, np.split(images, ends[:-1]), strict=True):
            own.append(chunk)
    return [np.concatenate(own) for own in chunks]


def sampled_test_parts(
    params: Any,
    parts: list[np.ndarray],
    train: LabelledSubset,
    test: LabelledSubset,
    draw: np.random.Generator,
) -> list[np.ndarray]:
    """Draw for each client an equal share of the test set in the class proportions of its training
    part.

    Clients draw from the whole test set, for training parts that overlap. If it has too few images
    of a class, the proportions stay and the part is smaller.
    """
    members = [np.flatnonzero(test.labels == label) for label in range(train.classes)]
    available, size = np.array([len(images) for images in members]), len(test.labels) // len(parts)
    wanted = [
        _round_counts(np.where(available > 0, counts, 0), available, size)
        for counts in _counts(parts, train)
    ]
    tests: list[np.ndarray] = []
    for row in wanted:
        chosen = [
            draw.choice(images, count, replace=False)
            for images, count in zip(members, row, strict=True)
        ]
        tests.append(np.concatenate(chosen))
    return tests


def _counts(parts: list[np.ndarray], train: LabelledSubset) -> np.ndarray:
    """Return the number of training images by part and class, (parts, classes)."""
    return np.stack([np.bincount(train.labels[part], minlength=train.classes) for part in parts])


def _round_counts(counts: np.ndarray, available: np.ndarray, size: int) -> np.ndarray:
    """Return images of each class, (classes,), at most `size` in total and in the proportions of
    `counts`. What rounding down leaves goes to the largest remainders."""
    if (total := counts.sum()) == 0:
        return counts
    present = counts > 0
    size = min(size, (available[present] * total // counts[present]).min())
    images, remainders = np.divmod(counts * size, total)
    images[np.argsort(-remainders, kind="stable")[: size - images.sum()]] += 1
    return images


def to_arrays(partition: Partition) -> dict[str, np.ndarray]:
    """Return a partition as arrays by name; parts as one array and, by NAME_ends, where each part
    ends in it."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in vars(partition).items():
        if isinstance(value, list):
            arrays |= {
                name: np.concatenate(value),
                f"{name}_ends": np.cumsum([len(part) for part in value]),
            }
        elif value is not None:
            arrays[name] = np.asarray(value)
    return arrays


def save(partition: Partition, path: Path) -> None:
    """Write a partition to one .npz file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **to_arrays(partition))


def load(path: Path) -> Partition:
    """Read what `save` wrote."""
    values: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as stored:
        for name in (field.name for field in fields(Partition) if field.name in stored):
            array, ends = stored[name], stored.get(f"{name}_ends")
            values[name] = (
                np.split(array, ends[:-1])
                if ends is not None
                else array
                if array.ndim
                else array.item()
            )
    return Partition(**values)
