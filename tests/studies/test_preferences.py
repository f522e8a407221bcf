"""Class preferences of networks for which they are known."""

import math
from pathlib import Path

import pytest
import torch

from fedrepro import algorithms
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import NO_CLASS
from fedrepro.models import Conv, Dense, Head, tasks
from fedrepro.report.figures.studies import agreement
from fedrepro.studies import preferences
from fedrepro.studies.preferences import distances, top_classes
from fedrepro.training.replay import Replay
from support.federation import config, federation, images
from support.networks import assembled


def linear():
    """Return a network of three units that copy the three pixels, with known weights of the
    scores."""
    net = assembled([Conv("conv1", 3, 1), Dense("fc1", 3), Head(3)], shape=(3, 1, 1)).double()
    weights = {name: torch.zeros_like(tensor) for name, tensor in net.state_dict().items()}
    weights["extractor.conv1.layer.weight"] = torch.eye(3, dtype=torch.float64)[:, :, None, None]
    weights["hidden.fc1.layer.weight"] = torch.eye(3, dtype=torch.float64)
    weights["head.weight"] = torch.tensor(
        [[5.0, 0, -1], [1, 2, -1], [0, 7, -1]], dtype=torch.float64
    )
    task = tasks.create(Choice(name="classification"), 3)
    return algorithms.create(
        Choice(name="fedavg"), net, rng.generator(0, "algorithm"), task
    ), weights


X = torch.tensor([[1.0, 2, 3], [4, 0, 1], [2, 2, 2], [6, 1, 1]], dtype=torch.float64)[
    :, :, None, None
]
Y = torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(("over_images", "first"), [("mean", 2), ("sum", 1), ("mean_mean", 2)])
@pytest.mark.parametrize("chunk", [100, 3])
def test_preferences_by_hand(over_images, first, chunk):
    """Activation times weight, summed over the images of a class; two of them are of class 0."""
    algorithm, weights = linear()
    found = preferences.preferences(algorithm, weights, X, Y, over_images, chunk)
    expected = torch.tensor(
        [[35 / first, 4, 0], [0, 0, 14], [-4 / first, -1, -2]], dtype=torch.float64
    )
    assert list(found) == ["conv1", "fc1"]
    assert torch.equal(found["fc1"], expected) and torch.equal(found["conv1"], expected)
    assert top_classes(expected).tolist() == [0, 2, NO_CLASS]


def test_means_of_activations_and_of_gradients_are_taken_separately():
    """Two images of one class; a unit's gradient is 1 where it is on, so its preference is (3 + 0)
    / 2 * (1 + 0) / 2."""
    net = assembled([Dense("fc1", 1), Dense("fc2", 1), Head(2)], shape=(1, 1, 1)).double()
    weights = {name: torch.zeros_like(tensor) for name, tensor in net.state_dict().items()}
    for name in ("hidden.fc1.layer.weight", "hidden.fc2.layer.weight"):
        weights[name] = torch.ones(1, 1, dtype=torch.float64)
    weights["hidden.fc1.layer.bias"] = torch.tensor([2.0], dtype=torch.float64)
    weights["hidden.fc2.layer.bias"] = torch.tensor([-3.0], dtype=torch.float64)
    weights["head.weight"] = torch.tensor([[1.0], [0]], dtype=torch.float64)
    task = tasks.create(Choice(name="classification"), 2)
    algorithm = algorithms.create(Choice(name="fedavg"), net, rng.generator(0, "algorithm"), task)
    inputs, labels = (
        torch.tensor([2.0, 0], dtype=torch.float64).view(2, 1, 1, 1),
        torch.tensor([0, 0]),
    )
    results = {
        how: preferences.preferences(algorithm, weights, inputs, labels, how)["fc1"].tolist()
        for how in ("mean", "mean_mean")
    }
    # (4 * 1 + 2 * 0) / 2, and (4 + 2) / 2 * (1 + 0) / 2
    assert results == {"mean": [[2, 0]], "mean_mean": [[1.5, 0]]}


def test_distances_by_hand():
    """Shares (1, 0), (0, 1) and (1/2, 1/2); the fourth unit is dead; a negative preference counts
    as 0 unless kept."""
    layer = torch.tensor([[3.0, 0], [0, 9], [2, 2], [0, -1]], dtype=torch.float64)
    assert distances(layer).tolist() == pytest.approx(
        [math.sqrt(0.5), math.sqrt(0.5), 0, math.nan], nan_ok=True
    )
    assert distances(torch.zeros(2, 3)).isnan().all()
    # (3/2, -1/2), (0, 1), and two without
    kept = torch.tensor([[3.0, -1], [0, 9], [0, -1], [1, -1]], dtype=torch.float64)
    expected = [math.sqrt(2) * 0.75] * 2 + [math.nan] * 2
    assert distances(kept, negative=True).tolist() == pytest.approx(expected, nan_ok=True)


def test_a_figures_agreement_by_hand():
    """One of four units is dead in a network; two of the others agree."""
    tops = [[0, 1, 2, NO_CLASS], [0, 1, 1, 3], [0, 1, 2, 3]]
    rows = [
        {"unit": str(unit), "class": "" if label == NO_CLASS else str(label)}
        for own in tops
        for unit, label in enumerate(own)
    ]
    assert agreement(rows) == (2, 3, 4)


def test_units_of_a_group_prefer_its_class():
    """In a network in groups a unit has no preference for another group's classes. Nor has a unit
    of the last shared block, whose channels are divided among the groups."""
    fed = federation(
        config(algorithm={"name": "psi_net", "groups": 5, "grouped_from": "conv2"}), images()
    )
    state, _ = fed.start()
    found = preferences.preferences(fed.algorithm, state.weights, fed.data.test_x, fed.data.test_y)
    groups = fed.algorithm.net.groups
    for name in ("conv1", "conv2", "fc1"):
        for group, units in enumerate(groups.split(found[name])):
            others = [label for label in range(10) if label not in groups.classes[group]]
            assert (units[:, others] == 0).all() and (units != 0).any()


def test_preferences_are_measured_after_local_training():
    """On 15 images, two of some classes and one of others, so that sum and mean differ. FedFusion's
    clients have more than their own weights."""
    fed = federation(config(algorithm={"name": "fedfusion"}), images())
    again = Replay(fed, Path("nowhere"), ())
    assert again.reach(1)
    replayed = again.round()
    first = replayed.trainings[0]
    own = fed.algorithm.personalised_weights(first.weights, first.received)
    study = preferences.Preferences(preferences.Preferences.Params(images=15), fed.config)
    wanted = preferences.preferences(fed.algorithm, own, fed.data.test_x[:15], fed.data.test_y[:15])
    rows = [row for row in study.measure(fed, replayed) if row[0] == first.client.number]
    expected = torch.cat([distances(matrix) for matrix in wanted.values()]).tolist()
    measured = [math.nan if distance is None else distance for *_, distance in rows]
    assert (
        measured == pytest.approx(expected, rel=1e-12, nan_ok=True)
        and sum(map(math.isfinite, measured)) > 10
    )
    summed = preferences.Preferences(
        preferences.Preferences.Params(images=15, over_images="sum"), fed.config
    )
    wanted = preferences.preferences(
        fed.algorithm, own, fed.data.test_x[:15], fed.data.test_y[:15], "sum"
    )
    rows = [row for row in summed.measure(fed, replayed) if row[0] == first.client.number]
    found = [math.nan if distance is None else distance for *_, distance in rows]
    assert found == pytest.approx(
        torch.cat([distances(matrix) for matrix in wanted.values()]).tolist(),
        rel=1e-12,
        nan_ok=True,
    )
    assert found != pytest.approx(measured, rel=1e-3, nan_ok=True)


def test_classes_need_scores():
    task = tasks.create(Choice(name="regression"), 5)
    net = assembled([Dense("fc1", 3), Head(1)], shape=(3, 1, 1)).double()
    algorithm = algorithms.create(Choice(name="fedavg"), net, rng.generator(0, "algorithm"), task)
    with pytest.raises(UserError, match="^study preferences: "):
        preferences.preferences(algorithm, net.state_dict(), X, Y)
