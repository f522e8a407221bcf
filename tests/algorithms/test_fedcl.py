"""Importance of weights: definitions, when it is sent, its bytes, and the clients' fallback."""

import pytest
import torch
from torch.nn import functional as F

from fedrepro import algorithms, models
from fedrepro.algorithms import _importance, fedcurv
from fedrepro.algorithms._importance import importance
from fedrepro.algorithms.base import Batch
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.models import tasks
from fedrepro.training.round import RoundExecution, message_bytes
from support.federation import advance, assert_close, config, federation, receive

DEFINITIONS = ["layer_squares", "layer_norm", "layer_outputs", "model_norm", "absolute", "fisher"]


def linear(classes: int = 3):
    """A linear classifier of four pixels, and nine images."""
    draw = rng.generator(0, "linear")
    net = models.build(Choice(name="logistic"), (1, 2, 2), classes, draw).double()
    task = tasks.create(Choice(name="classification"), classes)
    algorithm = algorithms.create(Choice(name="fedcl"), net, draw, task)
    x, y = torch.randn(9, 1, 2, 2, generator=draw, dtype=torch.float64), torch.arange(9) % classes
    weights = {
        name: torch.randn(tensor.shape, generator=draw).double()
        for name, tensor in net.state_dict().items()
    }
    return algorithm, weights, Batch(x, y)


def closed_form(weights, batch):
    """(images, classes, pixels): the gradient of cross entropy is (p - y) x'."""
    pixels = batch.images.flatten(1)
    scores = pixels @ weights["head.weight"].T + weights["head.bias"]
    left = scores.softmax(1) - F.one_hot(batch.labels, scores.shape[1])
    return left[:, :, None] * pixels[:, None]


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_only_sums_over_a_batch_depend_on_its_size(definition):
    algorithm, weights, batch = linear()
    parts = [Batch(batch.images[rows], batch.labels[rows]) for rows in torch.arange(9).split(2)]
    one, many = (
        importance(definition, algorithm, weights, batches)["head.weight"]
        for batches in ([batch], parts)
    )
    assert torch.allclose(one, many, rtol=1e-12) == (
        not definition.startswith("layer_") or definition == "layer_norm"
    )


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_how_many_gradients_are_held_at_once_changes_nothing(definition, monkeypatch):
    algorithm, weights, batch = linear()
    whole = importance(definition, algorithm, weights, [batch])
    monkeypatch.setattr(
        _importance, "MAX_GRADIENT_NUMBERS", 4 * sum(tensor.numel() for tensor in weights.values())
    )  # of 4, 4 and 1 images
    few = importance(definition, algorithm, weights, [batch])
    assert all(torch.allclose(few[name], whole[name], rtol=1e-12) for name in whole)


def test_squares_of_the_code():
    algorithm, weights, batch = linear()
    parts = [Batch(batch.images[rows], batch.labels[rows]) for rows in torch.arange(9).split(4)]
    slopes = closed_form(weights, batch)
    by_hand = sum(slopes[rows].mean(0).square().sum() for rows in torch.arange(9).split(4)) / 9
    assert importance("layer_squares", algorithm, weights, parts)[
        "head.weight"
    ].item() == pytest.approx(by_hand.item(), rel=1e-12)


def test_outputs_of_the_code():
    """Of s = W x + b the mean of squared scores has the gradient 2 s x' / (images x classes)."""
    algorithm, weights, batch = linear()
    parts = list(torch.arange(9).split(4))
    pixels = batch.images.flatten(1)
    scores = pixels @ weights["head.weight"].T + weights["head.bias"]
    by_hand = (
        sum(
            (2 * scores[rows].T @ pixels[rows] / scores[rows].numel()).abs().sum() for rows in parts
        )
        / 9
    )
    batches = [Batch(batch.images[rows], batch.labels[rows]) for rows in parts]
    found = importance("layer_outputs", algorithm, weights, batches)["head.weight"]
    assert found.item() == pytest.approx(by_hand.item(), rel=1e-12)


def test_clients_estimate_in_batches_of_the_servers_size():
    """Omega that depends on the batch size has one scale in the rounds in which it is sent and in
    those between them."""
    settings = config(algorithm={"name": "fedcl", "every": 10}, batch_size=2)
    fed = federation(
        settings.model_copy(update={"proxy": settings.proxy.model_copy(update={"batch_size": 5})})
    )
    state = fed.start()[0]
    client = RoundExecution(fed, state, {}).client(0)
    sizes = [len(batch.labels) for batch in client.estimation_batches()]
    assert sizes[0] == 5 and sum(sizes) == client.images


def test_importance_takes_part_in_every_nth_round():
    fed = federation(config(algorithm={"name": "fedcl", "every": 3}, precision="float32"))
    _, rows = advance(fed, 7)
    plain = 3 * message_bytes(fed.algorithm.net.state_dict())
    extra = [row["bytes_down"] - plain for row in rows[1:]]
    assert extra == [
        3 * 4 * len(fed.algorithm.trained) if round % 3 == 1 else 0 for round in range(1, 8)
    ]
    assert all(row["bytes_up"] == plain for row in rows[1:])


def test_fedcurv_sends_the_curvature_where_a_client_ended():
    """I at the weights that it sends, on its own images, and I w of the same; not of what it
    received."""
    fed = federation(config(algorithm={"name": "fedcurv"}))
    state, _ = fed.start()
    work = RoundExecution(fed, state, {})
    for client, _, message in work.train(receive(fed, state)):
        ended = {name: message[name] for name in fed.algorithm.trained}
        fisher = importance(
            "fisher", fed.algorithm, ended, work.client(client.number).estimation_batches()
        )
        assert_close({name: message["curvature." + name] for name in ended}, fisher, 1e-12)
        assert_close(
            {name: message["pull." + name] for name in ended},
            {n: fisher[n] * ended[n] for n in ended},
            1e-12,
        )


def test_sums_of_fedcurv_keep_nothing_of_how_its_first_values_were_rounded(monkeypatch):
    """In float32, where curvature falls by ten orders of magnitude after the first of three
    rounds."""
    last, calls = {}, iter(range(12))

    def falling(definition, algorithm, weights, batches):
        call = next(calls)
        size, draw = 1e4 if call < 4 else 1e-6, rng.generator(call, "curvature")
        last[call % 4] = {n: size * torch.rand(w.shape, generator=draw) for n, w in weights.items()}
        return last[call % 4]

    monkeypatch.setattr(fedcurv, "importance", falling)
    settings = {
        "algorithm": {"name": "fedcurv"},
        "precision": "float32",
        "clients_per_round": 4,
        "rounds": 3,
        "lr": 1e-6,
    }
    state, _ = advance(federation(config(**settings), executor="sequential"))
    for name in state.weights:
        true = sum(one[name].double() for one in last.values())
        torch.testing.assert_close(state.server["curvature." + name], true, rtol=1e-6, atol=0)
