"""Partitions: rules that all obey, then what each one promises."""

import ast
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from fedrepro.config import registry
from fedrepro.config.params import Proxy
from fedrepro.config.types import Choice, Count, Frozen, InputFile
from fedrepro.core.errors import UserError
from fedrepro.core.files import sha256
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import LabelledSubset
from fedrepro.data.partitions import (
    _store,
    balanced_classes,
    base,
    dirichlet,
    dirichlet_by_class,
    iid,
    random_classes,
)
from fedrepro.experiments import plan, run_lookup
from fedrepro.experiments.resolve import resolve
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import run_id
from support.experiments import one
from support.federation import config, images

CLASSES = 10
TRAIN, TEST = np.arange(400) % CLASSES, np.arange(200) % CLASSES
OPTIONS = {
    "class_shards": {"classes_per_client": 6, "pieces": 8, "size": 3},
    "balanced_classes": {"classes_per_client": 5},
    "dirichlet": {"alpha": 0.5},
    "dirichlet_by_class": {"alpha": 0.5},
}
NAMES = [name for name in registry.names("partitions") if name != "listed"]  # a file says all of it
VARIANTS = [(name, {}) for name in NAMES] + [
    ("classes", {"redraw": True}),
    ("classes", {"clients": 2, "groups": [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]}),
    ("dirichlet", {"prior": "classes"}),
    ("dirichlet", {"overlap": True}),
    ("iid", {"tests": "random"}),
    ("permuted", {"permute_pixels": False}),
    ("permuted", {"whole": True}),
    ("random_classes", {"totals": "unbalanced"}),
    ("shards", {"shards": 5}),
]
every = pytest.mark.parametrize(
    ("name", "options"), VARIANTS, ids=[f"{n}-{'-'.join(o)}".rstrip("-") for n, o in VARIANTS]
)


def make(name, seed=0, labels=TRAIN, test_labels=TEST, **options):
    choice = Choice(name=name, **({"clients": 4} | OPTIONS.get(name, {}) | options))
    parts = (
        LabelledSubset(truth, CLASSES, np.arange(len(truth)) * 4 // len(truth))
        for truth in (labels, test_labels)
    )
    return partitions.create(choice, *parts, pixels=16, seed=seed)


def overlaps(name, options):
    """Return whether clients may share images, and images may be unused."""
    return options.get("overlap", options.get("whole", name == "class_shards"))


def classes_of(partition):
    return partition.counts(TRAIN, CLASSES)


def same(one, other):
    arrays, others = base.to_arrays(one), base.to_arrays(other)
    return arrays.keys() == others.keys() and all(
        np.array_equal(array, others[name]) for name, array in arrays.items()
    )


@every
def test_parts_are_disjoint_and_cover(name, options):
    parts = make(name, **options)
    used = np.concatenate(parts.train)
    if overlaps(name, options):
        assert all(len(np.unique(part)) == len(part) for part in (*parts.train, *parts.test))
    else:
        assert sorted(used) == list(range(400))
        assert sorted(np.concatenate(parts.test)) == list(range(200))
    held = [parts.train_indices(client, 3) for client in range(parts.clients)]
    assert sorted(np.concatenate(held)) == sorted(used)


def off(partition, labels, test_labels):
    """Return for each part and class by how many images the test part misses the proportions of the
    training part, and by how many it may: one, since images are whole, and its share of the
    rounding errors of all classes."""
    train = np.stack([np.bincount(labels[part], minlength=CLASSES) for part in partition.train])
    test = np.stack([np.bincount(test_labels[part], minlength=CLASSES) for part in partition.test])
    shares = train / train.sum(1, keepdims=True)
    return np.abs(test - shares * test.sum(1, keepdims=True)), 1 + shares * (train > 0).sum(
        1, keepdims=True
    )


@pytest.mark.parametrize(
    ("name", "options"), [variant for variant in VARIANTS if "tests" not in variant[1]], ids=str
)
def test_test_parts_have_the_proportions_of_training_parts(name, options):
    labels, test_labels = np.arange(6000) % CLASSES, np.arange(3000) % CLASSES
    for more in (
        [{"alpha": alpha} for alpha in (0.1, 1)] if "alpha" in OPTIONS.get(name, {}) else [{}]
    ):
        missed, allowed = off(
            make(name, labels=labels, test_labels=test_labels, **options | more),
            labels,
            test_labels,
        )
        assert (missed <= allowed).all()


def test_test_images_at_random():
    """Split evenly, whatever the classes of the training parts."""
    parts, dealt = make("iid", tests="random"), make("iid")
    assert all(np.array_equal(*pair) for pair in zip(parts.train, dealt.train, strict=True))
    assert [len(part) for part in parts.test] == [50] * 4
    missed, allowed = off(parts, TRAIN, TEST)
    assert (missed > allowed).any()
    assert not np.array_equal(parts.test[0], make("iid", tests="random", seed=1).test[0])


def test_clients_that_share_train_images_share_test_images():
    """As in the FedCL authors' code each draws from the whole test set, and so has its full share
    of it."""
    parts, whole = make("dirichlet", overlap=True, alpha=100), make("permuted", whole=True)
    assert [len(part) for part in parts.test] == [50] * 4 and len(
        np.unique(np.concatenate(parts.test))
    ) < 200
    assert all(part.tolist() == list(range(400)) for part in whole.train)
    assert all(part.tolist() == list(range(200)) for part in whole.test)


def test_too_few_test_images_make_smaller_parts_of_equal_proportions():
    few = np.repeat(np.arange(CLASSES), [30, 0, 30, 30, 3, 30, 30, 30, 30, 30])
    parts = make("dirichlet", overlap=True, test_labels=few)
    train, test = (
        np.stack([np.bincount(labels[part], minlength=CLASSES) for part in held])
        for labels, held in ((TRAIN, parts.train), (few, parts.test))
    )
    assert (
        (test[:, 1] == 0).all()
        and test[:, 4].max() == 3
        and test.sum(1).min() < test.sum(1).max() == 60
    )
    train[:, 1] = 0  # nothing can be held against a class that the test set does not know
    assert np.abs(test - train / train.sum(1, keepdims=True) * test.sum(1, keepdims=True)).max() < 1


@every
def test_the_seed_decides(name, options):
    assert same(make(name, **options), make(name, **options))
    fixed = "groups" in options or name == "natural"  # all devices, as they are
    assert fixed or not same(make(name, **options), make(name, seed=1, **options))


def test_the_seed_decides_which_classes_are_drawn_again():
    one, other = (make("classes", clients=2, redraw=True, seed=seed) for seed in (0, 1))
    assert [one.parts_of(0, round) for round in range(1, 9)] != [
        other.parts_of(0, round) for round in range(1, 9)
    ]


@pytest.mark.parametrize(
    "damage", ("train", "test", "proxy", "foreign", "cut", "flipped", "no archive", "pipe")
)
def test_a_stored_partition_of_other_settings_is_refused(damage, tmp_path):
    data, path, run = images(), tmp_path / "partition.npz", config()
    own = _store.provide(run, data, path)
    assert same(own, _store.provide(run, data, path))
    whole = path.read_bytes()
    # in the packed array: what an archive says of it twice may be wrong in one place
    middle = whole.index(b"train.npy") + 60
    if damage in ("train", "test", "proxy"):
        partitions.save(replace(own, **{damage: getattr(own, damage)[::-1]}), path)
    elif damage == "foreign":
        partitions.save(partitions.for_run(config(seed=1), data), path)
    elif damage == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        flipped = (
            whole[:middle]
            + bytes(byte ^ 1 for byte in whole[middle : middle + 2])
            + whole[middle + 2 :]
        )
        path.write_bytes({"cut": whole[:middle], "flipped": flipped}.get(damage, b"x"))
    with pytest.raises(UserError, match=r"partition\.npz: .*; delete it, it is drawn again"):
        _store.provide(run, data, path)


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name, options in VARIANTS if name != "natural" and "whole" not in options],
    ids=str,
)
def test_a_clients_images_of_a_class_are_random(name, options):
    """Not consecutive ones in the file, whose order may mean something: a patient, a writer, a day.
    Those of natural clients are."""
    parts = make(name, **options)
    for held, truth in ((parts.train, TRAIN), (parts.test, TEST)):
        if options.get("tests") or all(len(own) == len(truth) for own in held):
            continue
        places = [
            np.flatnonzero(np.isin(np.flatnonzero(truth == label), own))
            for own in held
            for label in range(CLASSES)
        ]
        stretches = [
            np.ptp(found) + 1 == len(found)
            for found in places
            if 3 <= len(found) < (truth == 0).sum() - 2
        ]
        assert not stretches or not all(stretches)


@every
def test_save_and_load(name, options, tmp_path):
    partition = make(name, **options)
    partitions.save(partition, tmp_path / "new" / "partition.npz")
    assert same(partition, partitions.load(tmp_path / "new" / "partition.npz"))
    assert len(list((tmp_path / "new").iterdir())) == 1


@every
def test_uneven_classes_and_a_class_without_images(name, options):
    labels = np.repeat([0, 1, 2, 3, 4, 5, 6, 7, 8], [150, 90, 50, 30, 25, 20, 15, 12, 8])
    if name == "classes" and options.get("redraw"):
        with pytest.raises(UserError, match=r"clients: \d of 4 got no images of 400"):
            make(name, labels=labels, **options)
        return
    used = np.concatenate(make(name, labels=labels, **options).train)
    assert overlaps(name, options) or sorted(used) == list(range(400))


@pytest.mark.parametrize(
    ("classes", "shards", "size"), [(10, 2, 250), (100, 20, 25)], ids=["CIFAR-10", "CIFAR-100"]
)
def test_shards_of_100_clients_as_fedmax_has_them(classes, shards, size):
    """200 shards, or 2000; every shard is of one class, every client has 500 images."""
    labels = (
        LabelledSubset(np.arange(50_000) % classes, classes),
        LabelledSubset(np.arange(10_000) % classes, classes),
    )
    parts = partitions.create(
        Choice(name="shards", clients=100, shards=shards), *labels, pixels=1024, seed=0
    )
    held = parts.counts(labels[0].labels, classes)
    assert (
        (held % size == 0).all()
        and (held.sum(1) == 500).all()
        and (held.sum(0) == 50_000 // classes).all()
    )
    # two shards may be of one class
    assert (held > 0).sum(1).max() == shards and (held > 0).sum(1).min() >= shards - 5


def letters(clients=100, **options):
    """Return labels with the sizes of EMNIST's letters."""
    sets = LabelledSubset(np.arange(124_800) % 26, 26), LabelledSubset(np.arange(20_800) % 26, 26)
    return partitions.create(
        Choice(name="class_shards", clients=clients, **options), *sets, pixels=1024, seed=0
    ), sets


def test_class_shards_as_fedmax_has_them():
    parts, (train, test) = letters()
    held = parts.counts(train.labels, 26)
    assert (held.sum(1) == 1248).all() and ((held > 0).sum(1) == 20).all()
    assert ((held == 48).sum(1) == 14).all() and ((held == 96).sum(1) == 6).all()
    owners = np.bincount(np.concatenate(parts.train), minlength=len(train.labels))
    # 2600 pieces drawn from 2600, with replacement across clients
    assert owners.max() > 1 and (owners == 0).any()
    assert 1 - 1 / np.e == pytest.approx((owners > 0).mean(), abs=0.03)
    assert [len(part) for part in parts.test] == [208] * 100
    pieces = {
        tuple(np.sort(part[train.labels[part] == label]))
        for part in parts.train[:20]
        for label in range(26)
    }
    shared = {image: piece for piece in pieces if len(piece) == 48 for image in piece}
    # never half a piece
    assert all(len({shared[image] for image in piece}) == 1 for piece in pieces if len(piece) == 48)
    # drawn, not a stretch of the file
    assert not any(np.ptp(piece) == 47 * 26 for piece in pieces if len(piece) == 48)
    # of 600 second pieces half: any class may have two
    assert (held == 96)[:, :13].sum() == pytest.approx(300, abs=60)
    few, _ = letters(size=2400)  # two pieces a class
    assert all(len(np.unique(part)) == len(part) for part in few.train)


def test_stratified():
    labels = np.repeat(np.arange(CLASSES), [103, 57, 40, 40, 40, 40, 40, 20, 13, 7])
    held = make("stratified", labels=labels, clients=6).counts(labels, CLASSES)
    assert np.ptp(held, 0).max() == 1 and np.ptp(held.sum(1)) == 1
    seeds = [make("stratified", labels=labels, clients=6, seed=seed).train for seed in range(5)]
    # who has an image more is drawn
    assert len({tuple(len(part) for part in parts) for parts in seeds}) > 1
    # and what stands together
    assert len({frozenset(tuple(part) for part in parts) for parts in seeds}) == 5


def test_random_classes():
    balanced, unbalanced = (
        [make("random_classes", clients=20, totals=totals, seed=seed) for seed in range(5)]
        for totals in ("balanced", "unbalanced")
    )
    assert all(len(part) == 20 for parts in balanced for part in parts.train)
    sizes = np.array([[len(part) for part in parts.train] for parts in unbalanced])
    assert sizes.min() >= 1 and sizes.std(1).min() > 5 and (sizes.sum(1) == 400).all()
    first = np.stack([classes_of(parts)[0] for parts in balanced])
    assert first[:, 0].mean() > first[:, 1].mean() > first[:, 2:].mean()  # half, a quarter, ...
    alone = [(classes_of(parts) > 0).sum(1) for parts in balanced]
    assert (np.concatenate(alone) == 1).any() and (np.concatenate(alone) > 2).any()


def test_random_classes_example(monkeypatch):
    """Two classes of 6 and 4 images, two clients of 5: the first draws 2 of class 0, so takes 3 of
    class 1; the second draws 1 of the 4 that are left, finds one of class 1, and fills up with
    class 0."""

    class Draw:
        numbers = iter([2, 1])

        def permutation(self, images):
            return images

        def integers(self, low, high, endpoint):
            assert (low, high, endpoint) == (0, 5, True)
            return next(self.numbers)

    labels = LabelledSubset(np.array([0] * 6 + [1] * 4), 2)
    parts = random_classes.split(random_classes.Params(clients=2), labels, Draw())
    assert [part.tolist() for part in parts] == [[0, 1, 6, 7, 8], [2, 3, 4, 5, 9]]


def test_classes():
    held = classes_of(make("classes", clients=2))
    assert (held > 0).sum(1).tolist() == [5, 5] and set(held[held > 0]) == {40}
    even, odd = (
        classes_of(make("classes", clients=2, groups=[[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]])) > 0
    )
    assert even.tolist() == [True, False] * 5 and odd.tolist() == [False, True] * 5


def test_classes_redrawn_every_round():
    parts, again = make("classes", clients=2, redraw=True), make("classes", clients=2, redraw=True)
    deals = [parts.parts_of(0, round) for round in range(1, 9)]
    assert deals == [again.parts_of(0, round) for round in range(1, 9)]
    assert len({tuple(deal) for deal in deals}) > 4
    for round in range(1, 9):
        assert sorted(parts.parts_of(0, round) + parts.parts_of(1, round)) == list(range(10))
        assert (
            set(TRAIN[parts.train_indices(0, round)])
            == set(TEST[parts.test_indices(0, round)])
            == set(deals[round - 1])
        )


@pytest.mark.parametrize(("clients", "each"), [(4, 5), (10, 2), (20, 3), (5, 10)])
def test_balanced_classes(clients, each):
    held = classes_of(make("balanced_classes", clients=clients, classes_per_client=each))
    assert ((held > 0).sum(1) == each).all()
    assert ((held > 0).sum(0) == clients * each // CLASSES).all()
    assert np.ptp(held[held > 0]) <= 1
    sized = classes_of(make("balanced_classes", clients=clients, classes_per_client=each, size=2))
    assert set(sized[held > 0].tolist()) == {2} and sized[held == 0].max(initial=0) == 0


def test_combinations_of_classes_are_random():
    """With two classes for each of ten clients not always 0 with 1, 2 with 3, ..."""
    pairs = {
        tuple(np.flatnonzero(row))
        for seed in range(20)
        for row in classes_of(make("balanced_classes", clients=10, classes_per_client=2, seed=seed))
    }
    assert len(pairs) > 30  # of 45


def test_mixed_classes_are_uniform(monkeypatch):
    """Two of three classes for each of three clients: 6 assignments, as often as each other
    (chi-square, 1 %). Of ten classes half for each of ten: unmixed, every client has its
    opposite."""
    monkeypatch.setattr(balanced_classes, "TRADES", 10)
    params, counts = balanced_classes.Params(clients=3, classes_per_client=2, mixed=True), Counter()
    three = LabelledSubset(TRAIN % 3, 3, np.zeros(400))
    for seed in range(600):
        parts = balanced_classes.split(params, three, np.random.default_rng(seed))
        held = [tuple(np.unique(three.labels[part]).tolist()) for part in parts]
        assert all(len(own) == 2 for own in held)
        counts[tuple(held)] += 1
    assert len(counts) == 6 and sum((count - 100) ** 2 / 100 for count in counts.values()) < 15.1

    def opposites(mixed: bool) -> int:
        held = (
            classes_of(
                make("balanced_classes", clients=10, classes_per_client=CLASSES // 2, mixed=mixed)
            )
            > 0
        )
        assert (held.sum(0) == 5).all() and (held.sum(1) == CLASSES // 2).all()
        return sum(any(not (one & other).any() for other in held) for one in held)

    assert opposites(False) == 10 > opposites(True)


IMPOSSIBLE = [
    *((name, {"clients": 401}, "clients: 401 clients cannot share 400") for name in NAMES),
    *((name, {"color": 3}, "color: unknown key: choose from .*clients") for name in NAMES),
    ("classes", {"clients": 11}, "clients: 11 clients cannot split 10 classes"),
    ("classes", {"clients": 2, "groups": [[0, 1], [2, 3]]}, "groups: need 2 groups"),
    (
        "classes",
        {"clients": 3, "groups": [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]},
        "groups: need 3 groups",
    ),
    (
        "classes",
        {"clients": 2, "groups": [[0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9]]},
        "groups: need 2 groups",
    ),
    ("classes", {"clients": 2, "redraw": True, "groups": [[0], [1]]}, "groups: .* redraw"),
    ("class_shards", {"classes_per_client": 11}, r"classes_per_client: at most 10 \(got 11\)"),
    ("class_shards", {"size": 41}, r"classes_per_client: 0 classes have 41 images \(got 6\)"),
    (
        "class_shards",
        {"pieces": 5},
        r"pieces: expected 6 to 12, one or two of each class \(got 5\)",
    ),
    (
        "class_shards",
        {"pieces": 13},
        r"pieces: expected 6 to 12, one or two of each class \(got 13\)",
    ),
    ("class_shards", {"size": 21}, "size: a class has no two pieces of 21 images"),
    ("shards", {"clients": 100, "shards": 5}, "100 clients x 5 shards need 500 images, got 400"),
    ("balanced_classes", {"size": 21}, r"size: at most 20, of class 0 \(got 21\)"),
    (
        "balanced_classes",
        {"clients": 10, "classes_per_client": 11},
        r"classes_per_client: at most 10 \(got 11\)",
    ),
    (
        "balanced_classes",
        {"classes_per_client": 3},
        "clients x classes_per_client = 12 must be a multiple of 10",
    ),
    ("dirichlet_by_class", {"min_size": 101}, r"min_size: at most 100 of 400 images \(got 101\)"),
    *(
        (
            "dirichlet",
            {"alpha": alpha},
            r"alpha: expected a number above 0 and at most 3.4e\+38, or 'uniform'[^\n]*$",
        )
        for alpha in (0, -1, float("inf"), True, "even", 1e308, "1e308", [1])
    ),
]


@pytest.mark.parametrize(("name", "options", "words"), IMPOSSIBLE)
def test_invalid_options(name, options, words):
    with pytest.raises(UserError, match=f"partition {name}: {words}"):
        make(name, **options)


def test_impossible_balanced_classes(monkeypatch):
    few = np.repeat(np.arange(CLASSES), [1, *[40] * (CLASSES - 1)])
    with pytest.raises(
        UserError, match="partition balanced_classes: .*class 0 has 1 images for 5 clients"
    ):
        make("balanced_classes", labels=few, clients=10)
    monkeypatch.setattr(balanced_classes, "TRIES", 0)
    with pytest.raises(UserError, match="partition balanced_classes: .*0 tries"):
        make("balanced_classes")


SPREADS = [({"alpha": 1}, 10), ({"alpha": 10}, 100), ({"alpha": 4, "prior": "classes"}, 4)]


@pytest.mark.parametrize(("options", "total"), SPREADS)
def test_dirichlet_shares_spread_as_alpha_says(options, total):
    """A share of mean 0.1 has the variance 0.1 * 0.9 / (sum of the concentrations + 1): alpha a
    class, or alpha in all."""
    labels = np.arange(60_000) % CLASSES
    shares = (
        make("dirichlet", labels=labels, clients=200, overlap=True, **options).counts(
            labels, CLASSES
        )
        / 300
    )
    assert shares.var() == pytest.approx(0.09 / (total + 1), rel=0.15)


@pytest.mark.parametrize("options", [{}, {"prior": "classes"}, {"overlap": True}], ids=str)
def test_dirichlet_at_extreme_alphas(options):
    even = classes_of(make("dirichlet", alpha=1e6, **options))
    assert even.min() >= 2 and even.max() <= 25  # around 10
    skewed = classes_of(make("dirichlet", clients=10, alpha=1e-3, **options))
    # of 40 images: one class and next to nothing else
    assert (skewed.max(1) >= 38).sum() >= 4 and skewed[0].max() >= 38


def test_dirichlet_uniform_and_the_largest_alpha_are_equal_shares():
    """`1e-1` without a point is a string in YAML. Six clients of 66 images, 6.6 a class: 6 of each,
    60 in total if they overlap. Without overlap three clients have 133 of 400."""
    for alpha in ("uniform", 3.4e38):
        assert (classes_of(make("dirichlet", alpha=alpha, overlap=True)) == 10).all()
    assert same(make("dirichlet", alpha="1e-1"), make("dirichlet", alpha=0.1))
    labels = np.repeat(np.arange(3), [100, 200, 100])
    parts = make(
        "dirichlet",
        alpha="uniform",
        prior="classes",
        overlap=True,
        labels=labels,
        test_labels=labels,
    )
    assert [np.bincount(labels[part]).tolist() for part in parts.train] == [[25, 50, 25]] * 4
    assert (classes_of(make("dirichlet", alpha="uniform", overlap=True, clients=6)) == 6).all()
    assert [len(part) for part in make("dirichlet", clients=3).train] == [133] * 3


def test_clients_without_classes_left_draw_others():
    """All of the client's share is of class 0, of which nothing is left."""
    asked = []

    class Draw:
        def dirichlet(self, concentration):
            asked.append(concentration.tolist())
            return np.array([0.25, 0.75])

        def multinomial(self, count, odds):
            assert odds.tolist() == [0, 0.25, 0.75]
            return np.array([0, 1, count - 1])

    found = dirichlet.draw_remaining(
        np.array([1.0, 0, 0]), np.array([0.3, 0.5, 2.0]), 3, [[], [1, 2], [3, 4, 5]], Draw()
    )
    assert found.tolist() == [2, 5, 4] and asked == [[0.5, 2.0]]


@pytest.mark.parametrize(
    ("labels", "clients", "shares", "expected"),
    [
        # with two of four a client has its fair number
        ([0, 0, 1, 1], 2, [[1.0, 0.0], [0.5, 0.5]], [[0, 1], [2, 3]]),
        # 5/3 and 10/3 are nearest to 2 and 3
        ([0, 0, 0, 0, 0], 3, [[1 / 3] * 3], [[0, 1], [2], [3, 4]]),
    ],
)
def test_dirichlet_by_class_example(labels, clients, shares, expected):
    given = iter(np.array(shares))
    draw = SimpleNamespace(permutation=lambda images: images, dirichlet=lambda alphas: next(given))
    params = dirichlet_by_class.Params(clients=clients, alpha=0.5, min_size=min(map(len, expected)))
    parts = dirichlet_by_class.split(
        params, LabelledSubset(np.array(labels), max(labels) + 1), draw
    )
    assert [part.tolist() for part in parts] == expected


def test_test_images_are_split_by_rounding():
    """Five images of a class for three clients with equal training parts: up to 5/3 and 10/3, so to
    2 and 3."""
    sets = (LabelledSubset(np.zeros(count, int), 1) for count in (3, 5))
    draw = SimpleNamespace(permutation=lambda images: images)
    assert [
        part.tolist() for part in base.disjoint_test_parts(None, [[0], [1], [2]], *sets, draw)
    ] == [
        [0, 1],
        [2],
        [3, 4],
    ]


def test_dirichlet_by_class_tries_a_bounded_number_of_times(monkeypatch):
    assert min(len(part) for part in make("dirichlet_by_class", alpha=0.1, min_size=30).train) >= 30
    monkeypatch.setattr(dirichlet_by_class, "TRIES", 5)
    words = (
        r"min_size: in 5 draws of 400 images for 4 clients the smallest share had at most "
        r"(\d+) \(got 99\); lower it to"
    )
    with pytest.raises(UserError, match=f"partition dirichlet_by_class: {words} ") as caught:
        make("dirichlet_by_class", min_size=99)
    advised = int(re.search(words, str(caught.value))[1])
    assert min(len(part) for part in make("dirichlet_by_class", min_size=advised).train) == advised


def test_an_unlikely_min_size_is_abandoned_soon():
    """A thousand draws for 500 clients take a second, not minutes."""
    begun = time.process_time()
    with pytest.raises(UserError, match=r"lower it to \d+, or set fewer clients or a larger alpha"):
        make("dirichlet_by_class", labels=np.arange(6000) % CLASSES, clients=500, min_size=10)
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ({"name": "natural", "clients": 4}, "partition natural: "),
        (
            {"name": "dirichlet_by_class", "clients": 10, "alpha": 1, "min_size": 144},
            "min_size: .*143 of 1438",
        ),
    ],
    ids=["natural", "dirichlet_by_class"],
)
def test_impossible_options_are_refused_without_data(partition, words, tmp_path):
    with pytest.raises(UserError, match=words):
        plan.plan_experiments(one(partition=partition), Paths(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mine(monkeypatch):
    """Return a user's own partition module, to be filled."""
    found, names = ModuleType("fedrepro.data.partitions.mine"), registry.names
    found.Params, found.split = iid.Params, iid.split
    monkeypatch.setitem(sys.modules, found.__name__, found)
    monkeypatch.setattr(
        registry, "names", lambda kind: [*names(kind), *(["mine"] if kind == "partitions" else [])]
    )
    monkeypatch.setattr("fedrepro.core.provenance.partition_digest", lambda name: "code")
    monkeypatch.setattr("fedrepro.core.provenance.code_digest", lambda modules, *entry: "code")
    return found


def test_runs_are_named_by_the_content_of_a_partitions_file(mine, tmp_path):
    """It is read with the settings: other content gives another partition and another run, and a
    later edit is noticed."""

    class Params(Frozen):
        clients: Count
        file: InputFile

    def split(params, train, draw):
        return [np.array(line.split(), int) for line in params.file.read().decode().splitlines()]

    mine.Params, mine.split, file = Params, split, tmp_path / "clients.txt"

    def planned(text):
        file.write_text(text)
        choice = {"name": "mine", "clients": 2, "file": str(file)}
        return resolve(config(partition=choice, clients_per_round=2)), make(
            "mine", clients=2, file=str(file)
        )

    (first, parts), (second, other) = planned("0 1\n2 3\n"), planned("0 1\n2 4\n")
    assert [part.tolist() for part in parts.train] == [[0, 1], [2, 3]] and other.train[
        1
    ].tolist() == [2, 4]
    for name in (Paths().partition, run_id, run_lookup.run_key):
        assert name(first, "data") != name(second, "data")
    assert first.partition.options["file"] == {"path": str(file), "sha256": sha256("0 1\n2 3\n")}
    assert resolve(first) == first  # as a stored run says it, whatever lies there now
    with pytest.raises(UserError, match="changed since the work was planned"):
        partitions.for_run(first, images())
    file.unlink()
    assert resolve(first) == first
    with pytest.raises(
        UserError, match=r"partition mine: file: .*clients\.txt: cannot be read \(No such file"
    ):
        make("mine", clients=2, file=str(file))
    assert Params.model_json_schema()["properties"]["file"]["type"] == "string"


@pytest.mark.parametrize(("parts", "own_test", "words"), [
    ([[0, 1], [2, 400]], False, r"split: part 1: images 2 to 400, expected 0 to 399"),
    ([[0, 1], [-1, 2]], True, r"split: part 1: images -1 to 2, expected 0 to 399"),
    ([[0, 1], [2, 3, 2]], True, "split: part 1: image 2 twice"),
    ([[0, 1], [2, 1]], False, "split: image 1 is in two parts. If clients are to share"),
    ([[0, 1]], False, "split: 1 parts for 2 clients"),
    ([[0, 1], []], False, "clients: 1 of 2 got no images"),
])  # fmt: skip
def test_indices_of_partitions_are_checked(parts, own_test, words, mine):
    mine.split = lambda params, train, draw: [np.array(part, int) for part in parts]
    if own_test:
        mine.split_test = iid.split_test
    with pytest.raises(UserError, match=f"partition mine: {words}"):
        make("mine", clients=2)


def test_dirichlet_by_class_gives_full_clients_nothing():
    sizes = [
        len(part)
        for seed in range(5)
        for part in make("dirichlet_by_class", seed=seed, alpha=0.1).train
    ]
    assert max(sizes) < 100 + 40  # below the fair 100 before its last class, and a class has 40


def test_natural_owners():
    owners, test_owners = np.array([7, 3, 3, 9, 7, 1] * 4), np.array([9, 7, 7, 3, 1, 1])

    def devices(clients, seed=0):
        sets = (
            LabelledSubset(np.zeros(24, int), 1, owners),
            LabelledSubset(np.zeros(6, int), 1, test_owners),
        )
        parts = partitions.create(
            Choice(name="natural", clients=clients), *sets, pixels=16, seed=seed
        )
        held = [set(owners[part]) for part in parts.train]
        assert held == [set(test_owners[part]) for part in parts.test] and all(
            len(device) == 1 for device in held
        )
        assert all(
            (owners == device).sum() == len(part)
            for (device,), part in zip(held, parts.train, strict=True)
        )
        return [device for (device,) in held]

    assert devices(4) == [1, 3, 7, 9]
    assert len({tuple(devices(2, seed)) for seed in range(6)}) > 1
    with pytest.raises(
        UserError, match=r"partition natural: clients: at most the 4 devices of the data \(got 5\)"
    ):
        devices(5)
    with pytest.raises(UserError, match="partition natural: the data do not say which device"):
        partitions.for_run(config(partition={"name": "natural", "clients": 4}), images())


def test_permuted():
    orders = make("permuted").permutations
    assert orders.shape == (4, 16) and len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert make("permuted", permute_pixels=False).permutations is None


def test_subsets_contain_one_another():
    dataset = images()
    small, large, whole = (partitions.subset(dataset, count, None)[0] for count in (20, 50, None))
    assert (
        set(small) < set(large) < set(whole)
        and len(small) == 20
        and whole.tolist() == list(range(80))
    )
    with pytest.raises(UserError, match=r"test_images: made has 40 test images \(got 41\)"):
        partitions.subset(dataset, 10, 41)
    # counts from zero in its subset
    part = partitions.for_run(config(train_images=60, test_images=20), dataset)
    assert sorted(np.concatenate(part.train)) == list(range(60)) and sorted(
        np.concatenate(part.test)
    ) == list(range(20))


def test_proxy_images_are_stored_and_may_be_removed_from_clients(tmp_path):
    """They are the same whether or not clients have them too, and for every partition."""
    shared, removed, other = (
        partitions.for_run(
            config(
                train_images=60,
                proxy={"share": 0.25, "removed": kept},
                partition={"name": name, "clients": 4},
            ),
            images(),
        )
        for kept, name in ((False, "iid"), (True, "iid"), (True, "shards"))
    )
    assert (
        len(shared.proxy) == 15
        and np.array_equal(shared.proxy, removed.proxy)
        and np.array_equal(shared.proxy, other.proxy)
    )
    assert sorted(np.concatenate(shared.train)) == list(range(60))
    for part in (removed, other):
        assert sorted([*np.concatenate(part.train), *part.proxy]) == list(range(60))
        assert np.array_equal(np.bincount(np.concatenate(part.test), minlength=40), np.ones(40))
    # the nearest number, not none
    assert [partitions.proxy_size(Proxy(share=0.25), count) for count in (1, 7, 9)] == [1, 2, 2]
    partitions.save(removed, tmp_path / "parts.npz")
    assert same(partitions.load(tmp_path / "parts.npz"), removed)
    assert partitions.for_run(config(proxy=None), images()).proxy is None
    with pytest.raises(UserError, match="cannot share 0 train images"):
        partitions.for_run(config(proxy={"share": 1, "removed": True}), images())


def test_validation_images_are_held_out(tmp_path):
    """Neither a client nor the server has them; another seed holds out others."""
    run = config(train_images=60, validation={"share": 0.2}, proxy={"share": 0.25, "removed": True})
    part = partitions.for_run(run, images())
    assert len(part.validation) == 12 and len(part.proxy) == 15
    assert sorted([*np.concatenate(part.train), *part.proxy, *part.validation]) == list(range(60))
    other = partitions.for_run(run.model_copy(update={"seed": 1}), images())
    assert not np.array_equal(part.validation, other.validation)
    partitions.save(part, tmp_path / "parts.npz")
    assert same(partitions.load(tmp_path / "parts.npz"), part)
    assert (
        "validation" not in config().model_dump()
        and partitions.for_run(config(), images()).validation is None
    )


@pytest.mark.parametrize(
    "choice",
    [{}, {"name": "permuted", "whole": True}, {"name": "shards"}],
    ids=["iid", "shared", "shards"],
)
def test_validation_images_of_each_client_are_a_share_of_its_own(choice, tmp_path):
    """Neither a client nor the server trains on them, even where clients share images."""
    run = config(
        partition={"clients": 4} | choice,
        validation={"share": 0.25, "per_client": True},
        proxy={"share": 0.25},
    )
    part, whole = (
        partitions.for_run(each, images())
        for each in (run, run.model_copy(update={"validation": None}))
    )
    trained = np.concatenate([*part.train, part.proxy])
    assert len(part.validation) and not np.isin(part.validation, trained).any()
    for before, train, own in zip(whole.train, part.train, part.client_validation, strict=True):
        assert (
            np.array_equal(np.union1d(train, own), before) and np.isin(own, part.validation).all()
        )
        assert len(own) == round(0.25 * len(before))
    partitions.save(part, tmp_path / "parts.npz")
    assert same(partitions.load(tmp_path / "parts.npz"), part)


def test_validation_leaves_each_client_an_image():
    run = config(
        partition={"clients": 30}, train_images=60, validation={"share": 0.9, "per_client": True}
    )
    with pytest.raises(
        UserError, match=r"validation.share: leaves 30 clients no images \(got 0.9\)"
    ):
        partitions.for_run(run, images())


def test_partitions_are_drawn_without_torch(tmp_path):
    """Importing it costs more than the job itself; a stored partition is not written again."""
    datasets.fetch("digits", tmp_path)
    datasets.prepare("digits", tmp_path, tmp_path / "out")
    run = config(dataset="digits", train_images=60, test_images=20)
    program = (
        "import sys; from pathlib import Path; from fedrepro.config.params import PartitionConfig\n"
        "from fedrepro.report.figures import _partition_heatmap as heatmap\n"
        "out = Path(sys.argv[1]); dealing = PartitionConfig.model_validate_json(sys.argv[2])\n"
        "for _ in range(2):\n"
        "    heatmap.provide_heatmaps({out / 'parts' / '0.npz': dealing}, lambda _: out)\n"
        "    print({path.name: path.stat().st_mtime_ns for path in (out / 'parts').iterdir()})\n"
        "assert 'torch' not in sys.modules"
    )
    command = [
        sys.executable,
        "-c",
        program,
        tmp_path / "out",
        run.partition_config.model_dump_json(),
    ]
    first, again = map(
        ast.literal_eval,
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines(),
    )
    assert set(first) == {"0.npz", "0.png"} and again == first
    data = datasets.load(tmp_path / "out")
    assert same(
        partitions.load(tmp_path / "out" / "parts" / "0.npz"), partitions.for_run(run, data)
    )
