"""FedMA: matching of units, and networks with matched units."""

from dataclasses import replace
from itertools import pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedrepro import algorithms
from fedrepro.algorithms import _matching
from fedrepro.algorithms._matching import Prior, match
from fedrepro.algorithms.base import Client, ClientUpdate, Server
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.experiments.cost_model import CountCache, estimate
from fedrepro.models import Dense, Head, tasks
from fedrepro.runs.paths import Paths
from fedrepro.training.round import message_bytes, run_round
from support.federation import a_run, assert_close, assert_same, config, federation
from support.networks import COLOUR, GREY, assembled, build

MODELS = [
    ("mlp", GREY, {"units": 20}),
    ("mnist_cnn", GREY, {"width": 0.1}),
    ("cifar_cnn", COLOUR, {"width": 0.1}),
    ("vgg9", COLOUR, {"width": 0.1}),
    ("fedmax_cnn", COLOUR, {"width": 0.1}),
]


def fedma(net, **options):
    task = tasks.create(Choice(name="classification"), net.head.out_features)
    return algorithms.create(
        Choice(name="fedma", **options), net, rng.generator(0, "algorithm"), task
    )


# The posterior


def energy(group, mean, sigma, sigma0):
    """Twice the negative log density of these copies and of the unit behind them, at its best
    place, but for constants."""
    best = [
        (m / sigma0 + sum(unit[d] for unit in group) / sigma) / (1 / sigma0 + len(group) / sigma)
        for d, m in enumerate(mean)
    ]
    prior = sum((b - m) ** 2 for b, m in zip(best, mean, strict=True)) / sigma0
    return (
        prior + sum((v - b) ** 2 for unit in group for v, b in zip(unit, best, strict=True)) / sigma
    )


@pytest.mark.parametrize("popularity", ["paper", "code"])
def test_gains_by_hand(popularity):
    """PFNM's Eq. 9 from the densities: what a unit adds to the log posterior in each place, its own
    square left out, which is the same in all of them. Twelve clients, two global units that 2 and
    11 others have."""
    draw, mean, sigma, sigma0, gamma, clients = (
        np.random.default_rng(0),
        [0.5, 0.0, -0.2],
        0.7,
        1.3,
        2.5,
        12,
    )
    groups, units = [draw.normal(size=(count, 3)) for count in (2, 11)], draw.normal(size=(2, 3))
    expected = np.zeros((2, 4))
    for row, unit in enumerate(units):
        square = sum(v * v for v in unit) / sigma
        for column, group in enumerate(groups):
            gain = energy(group, mean, sigma, sigma0) - energy([*group, unit], mean, sigma, sigma0)
            odds = {
                "paper": {2: (2 / 10) ** 2, 11: (11 / 1) ** 2},
                "code": {2: 2 / 10, 11: 10 / 2},
            }[popularity][len(group)]
            expected[row, column] = gain + square + np.log(odds)
        for new in (1, 2):
            expected[row, 1 + new] = (
                square - energy([unit], mean, sigma, sigma0) + 2 * np.log(gamma / clients / new)
            )
    prior = Prior(np.array(mean), sigma, sigma0, gamma, popularity)
    totals, counts = np.stack([group.sum(0) for group in groups]), np.array([2, 11])
    np.testing.assert_allclose(prior.gains(units, totals, counts, clients), expected, rtol=1e-12)
    np.testing.assert_allclose(
        prior.unit(totals, counts)[0],
        [
            (m / sigma0 + sum(unit[d] for unit in groups[0]) / sigma) / (1 / sigma0 + 2 / sigma)
            for d, m in enumerate(mean)
        ],
        rtol=1e-12,
    )


def test_two_clients_are_matched_best():
    """Against all orders: the one with the least energy in all."""
    draw, mean = np.random.default_rng(3), np.zeros(2)
    one, two = draw.normal(size=(2, 4, 2))
    found = match([one, two], Prior(mean, 1.0, 1.0, 7.0, grow=False), 3, draw)
    whole = {
        order: sum(energy([one[i], two[j]], mean, 1.0, 1.0) for i, j in enumerate(order))
        for order in permutations(range(4))
    }
    place = {unit: row for row, unit in enumerate(found[1])}
    assert tuple(place[unit] for unit in found[0]) == min(whole, key=whole.get)
    assert len(set(np.round(list(whole.values()), 9))) == 24


def test_units_have_no_gaps_and_no_doubles():
    draw = np.random.default_rng(1)
    clients = [3 * draw.normal(size=(units, 3)) for units in (5, 9, 2, 9)]
    found = match(clients, Prior(np.zeros(3), 1.0, 1.0, 7.0, "code"), 4, draw)
    assert [len(set(own)) for own in found] == [5, 9, 2, 9]
    assert (
        set(np.concatenate(found)) == set(range(max(map(max, found)) + 1))
        and max(map(max, found)) > 8
    )


def test_the_limit_of_units_leaves_none_unassigned(monkeypatch):
    """The code lets a client alone have 700 at most, here 7."""
    monkeypatch.setattr(_matching, "WIDEST", 7)
    prior = Prior(np.zeros(1), 1.0, 1.0, 7.0)
    assert sorted(match([np.ones((9, 1))], prior, 2, np.random.default_rng(0))[0]) == list(range(9))
    five = np.ones((5, 1))
    for known, places in ((4, 4 + 3), (9, 9 + 1)):  # what is left of 7, and one in any case
        assert prior.gains(five, np.ones((known, 1)), np.ones(known, int), 6).shape == (5, places)
    assert replace(prior, grow=False).gains(five, np.ones((4, 1)), np.ones(4, int), 6).shape == (
        5,
        5,
    )


# Networks


class Kept:
    """A round in which nobody trains: the clients bring `networks`, and later what they start
    from."""

    lr, epochs = 0.1, 1

    def __init__(self, *networks, classes=None):
        self.networks, self.clients, self.calls = networks, tuple(range(len(networks))), []
        self.classes = (
            classes if classes is not None else torch.ones(len(networks), 10, dtype=torch.int64)
        )

    def train(
        self,
        received,
        clients=None,
        *,
        lr=None,
        epochs=None,
        trained=None,
        starts=None,
        uploaded=None,
    ):
        self.calls.append(
            {
                "received": received,
                "trained": trained,
                "uploaded": uploaded,
                "lr": lr,
                "epochs": epochs,
            }
        )
        for number, network in enumerate(self.networks):
            client = Client(
                number,
                10,
                1,
                0.1,
                0.0,
                {},
                lambda number=number: self.classes[number],
                lambda: iter(()),
            )
            yield ClientUpdate(
                client, 1 / len(self.networks), starts[number] if len(self.calls) > 1 else network
            )

    def count_bytes(self, down=0, up=0):
        pass


def merged(method, *networks, **options):
    """Global weights and the server's state after a round with these networks."""
    return method.round(
        networks[0], Server(1, len(networks), 1.0, {}, lambda: iter(())), Kept(*networks, **options)
    )


def shuffled(net, weights, seed=0):
    """The same network with its hidden units in another order."""
    found, draw = dict(weights), rng.generator(seed, "order")
    for block, after in pairwise(net.blocks):
        order = torch.randperm(len(found[net.state_names(block)[0]]), generator=draw)
        for name in net.state_names(block):
            found[name] = found[name][order]
        into = found[net.state_names(after)[0]]
        columns = torch.arange(into[0].numel()).reshape(len(order), -1)[order].flatten()
        found[net.state_names(after)[0]] = into.flatten(1)[:, columns].reshape(into.shape)
    return found


def network(name, shape, options, scale=1.0, seed=0):
    """A network, its weights away from their start."""
    net = build(name, shape, **options).double()
    draw = rng.generator(seed, "weights")
    return net, {
        key: tensor
        + scale * tensor.std() * torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
        for key, tensor in net.state_dict().items()
    }


@pytest.mark.parametrize(("name", "shape", "options"), MODELS, ids=[model[0] for model in MODELS])
def test_a_permuted_copy_is_matched_exactly(name, shape, options):
    """Three of them: to the weights where no unit may be added, or a copy is worth more than a new
    unit, by |w|^2 / sigma0; and as a function always, since of a unit that is not matched there are
    two, and what comes after counts each for its part."""
    net, weights = network(name, shape, options)
    copies = [weights, shuffled(net, weights, 1), shuffled(net, weights, 2)]
    x = torch.rand(3, *shape, generator=rng.generator(0, "x"), dtype=torch.float64)
    expected = fedma(net).forward(weights, x).logits
    assert any(not torch.equal(weights[key], copies[1][key]) for key in weights)
    for copy in copies[1:]:
        assert torch.allclose(fedma(net).forward(copy, x).logits, expected, rtol=1e-12)
    for exact in (
        {"grow": False},
        {"sigma": 1e-6, "sigma0": 1e-3},
        {"grow": False, "posterior": "paper"},
    ):
        new, _ = merged(fedma(net, **exact), *copies)
        assert_close(new, weights, 1e-12)
    new, state = merged(fedma(net), *copies)
    assert torch.allclose(fedma(net).forward(new, x).logits, expected, rtol=1e-10)
    grown = [
        len(new[net.state_names(block)[0]]) > len(weights[net.state_names(block)[0]])
        for block in net.blocks
    ]
    assert any(grown) and state.keys() == {f"units.{block}" for block in [*net.blocks][:-1]}
    plain = sum(copy[net.state_names("head")[0]] for copy in copies) / 3
    assert not torch.allclose(plain, weights["head.weight"], rtol=0.01)  # what FedAvg makes of them


def test_the_posteriors_mean_draws_to_the_prior():
    """Of two equal units with sigma = sigma0 = 1: (mu + 2 w) / 3; mu is 0.1, for the bias in the
    first layer, and in the others for the first weight (code) or the bias (paper)."""
    net = assembled([Dense("fc1", 3), Dense("fc2", 4), Head(2)], shape=(2, 1, 1)).double()
    weights = {key: torch.randn(tensor.shape, dtype=torch.float64, generator=rng.generator(1, key))
               for key, tensor in net.state_dict().items()}  # fmt: skip
    classes = torch.ones(2, 2, dtype=torch.int64)
    for posterior in ("code", "paper"):
        method = fedma(net, units="posterior", posterior=posterior, grow=False)
        new, _ = merged(method, weights, weights, classes=classes)
        pulled = {
            key: tensor * (1 if key.startswith("head") else 2 / 3)
            for key, tensor in weights.items()
        }
        pulled["hidden.fc1.layer.bias"] += 0.1 / 3
        if posterior == "paper":
            pulled["hidden.fc2.layer.bias"] += 0.1 / 3
        else:
            pulled["hidden.fc2.layer.weight"][:, 0] += 0.1 / 3
        assert_close(new, pulled, 1e-12)


def test_unlike_units_stay_separate_and_return_to_their_clients():
    """Large, unlike units: the global network holds both, and each client cuts its own out of it,
    up to the head."""
    (net, one), (_, two) = (
        network("mnist_cnn", GREY, {"width": 0.1}, scale=30.0, seed=seed) for seed in (0, 1)
    )
    method = fedma(net)
    new, state = merged(method, one, two)
    widths = [
        (len(new[names[0]]), len(one[names[0]]))
        for block, names in method.layers.items()
        if block != "head"
    ]
    assert all(wide == 2 * width for wide, width in widths)
    own = method.cut_networks(new, Server(2, 2, 1.0, state, lambda: iter(())), Kept(one, two))
    for number, network_ in enumerate((one, two)):
        hidden = {key: tensor for key, tensor in network_.items() if not key.startswith("head")}
        assert_close({key: own[number][key] for key in hidden}, hidden, 1e-12)
        # the other has 0 there
        assert torch.allclose(own[number]["head.weight"], network_["head.weight"] / 2)


# The round


def test_phases_of_a_round():
    """Layer by layer; at last the head alone, for three times the epochs at a tenth of the rate."""
    net, weights = network(*MODELS[1])
    work = Kept(weights, shuffled(net, weights))
    fedma(net).round(weights, Server(1, 2, 1.0, {}, lambda: iter(())), work)
    names = [list(net.state_names(block)) for block in ("conv1", "conv2", "fc1", "head")]
    assert [list(call["uploaded"]) for call in work.calls] == names
    assert [call["trained"] for call in work.calls] == [
        None,
        sum(names[1:], []),
        sum(names[2:], []),
        names[3],
    ]
    assert [list(call["received"]) for call in work.calls] == [list(weights), *names[:3]]
    assert [(call["lr"], call["epochs"]) for call in work.calls] == [(None, None)] * 3 + [
        (pytest.approx(0.01), 3)
    ]


@pytest.fixture(scope="module")
def two_rounds():
    """A federation with its states and rows, and who trained what in round 2."""
    measures = ["test_loss", "initial_accuracy_all", "personal_accuracy_all"]
    fed, seen = (
        federation(config(algorithm={"name": "fedma"}, model={"dropout": 0.2}, measures=measures)),
        [],
    )
    first, one = run_round(fed, fed.start()[0])
    second, two = run_round(fed, first, seen.append)
    return SimpleNamespace(
        fed=fed, states=[fed.start()[0], first, second], rows=[one, two], seen=seen
    )


def test_bytes_of_a_round_by_hand(two_rounds):
    """Three clients. Down: the global network and then each of its hidden blocks, with the numbers
    of the client's units; up: each block once, as wide as the client's, its inputs as many as the
    global block before has."""
    fed, states, rows = two_rounds.fed, two_rounds.states, two_rounds.rows
    blocks, base = list(fed.algorithm.layers), fed.algorithm.net.state_dict()
    numbers = sum(len(base[fed.algorithm.layers[block][0]]) for block in blocks[:-1])
    for round, row in enumerate(rows, 1):
        before, after = states[round - 1].weights, states[round].weights
        matched = message_bytes(
            {name: after[name] for block in blocks[:-1] for name in fed.algorithm.layers[block]}
        )
        down = message_bytes(before) + matched + 8 * numbers * (1 + (round > 1))
        up = sum(len(base[name]) * after[name][0].numel() * 8 for name in base)
        assert (row["bytes_down"], row["bytes_up"]) == (3 * down, 3 * (up + 8 * 10))


def test_absent_clients_get_the_most_frequent_units(two_rounds):
    fed, first = two_rounds.fed, two_rounds.states[1]
    [absent] = set(range(4)) - set(fed.cohort(1))
    for table in first.server.values():
        others = table[fed.cohort(1)]
        counts = others.flatten().bincount()
        assert sorted(counts[table[absent]].tolist()) == sorted(
            counts.sort(descending=True).values[: table.shape[1]].tolist()
        )
        assert len(set(table[absent].tolist())) == table.shape[1]


def test_a_round_leaves_its_start_alone_and_knows_no_order(two_rounds):
    fed, (start, first, _) = two_rounds.fed, two_rounds.states
    assert_same(start.weights, fed.to_device(fed.algorithm.net.state_dict()))
    back = federation(fed.config)
    back.cohort = lambda round: fed.cohort(round)[::-1]
    assert_close(run_round(back, start)[0].weights, first.weights, 1e-12)


def test_an_estimate_counts_all_phases(tmp_path):
    """A training for each of the hidden blocks but one, and three times the epochs for the head."""

    def samples(**algorithm):
        run = a_run(tmp_path, config(algorithm=algorithm, train_images=80, test_images=40))
        return estimate(
            run, CountCache(Paths(results=tmp_path)), "sequential", torch.device("cpu"), {}
        ).samples

    assert samples(name="fedma") == 6 * samples(name="fedavg") == 6 * 3 * 3 * 2 * 20
    assert samples(name="fedma", last_epochs=1) == 4 * samples(name="fedavg")


# What it cannot do


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet50", {}),
        ("mobilenet", {"width": 0.1}),
        ("vgg16", {"width": 0.1, "norm": "batch"}),
        ("cifar_cnn", {"width": 0.1, "norm": "group"}),
        ("cifar_cnn", {"width": 0.1, "frozen": ["conv1"]}),
    ],
    ids=str,
)
def test_networks_that_it_does_not_know(name, options):
    with pytest.raises(UserError, match=f"^algorithm fedma: model {name}: "):
        fedma(build(name, COLOUR, **options))
