"""FedFusion: what is sent, what the server smooths, which extractor is which when. Its steps by hand: test_algorithms.py."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from fedrepro import algorithms, models
from fedrepro.algorithms.base import Batch, Sent
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.models import tasks
from fedrepro.training.round import size
from support.federation import advance, config, federation, local, normal, receive, scores, train_part


def fused(**options):
    return federation(config(algorithm={"name": "fedfusion", **options}))


@pytest.mark.parametrize(("operator", "extra"), [("conv", 2 * 3 * 3 + 3), ("multi", 3), ("single", 1)])
def test_bytes_of_fusion(operator, extra):
    """Extractor, fusion and classifier, in both directions: a client makes E_g from what it receives. Three maps here."""
    fed, plain = fused(operator=operator), federation(config())
    state, rows = advance(fed, 2)
    weights = extra + sum(tensor.numel() for tensor in plain.algorithm.net.parameters())
    assert fed.algorithm.net.channels == 3
    assert [(row["bytes_down"], row["bytes_up"]) for row in rows[1:]] == [(3 * 8 * weights, 3 * 8 * weights)] * 2
    assert size(receive(fed, state)) == 8 * weights == size(state.weights)


@pytest.mark.parametrize("operator", ["multi", "single"])
def test_moving_average_of_the_gates_by_hand(operator):
    """Three rounds of two clients with shares 1/4 and 3/4, their gates (1, 3), (2, -1), (1/2, 1/2): means 2.5, -0.25, 0.5."""
    fed = fused(operator=operator)
    state, _ = fed.start()
    weights = state.weights
    assert (weights["fusion.gate"] == 0).all() and weights["fusion.gate"].numel() == {"multi": 3, "single": 1}[operator]
    for gates, expected in (((1, 3), 0.25), ((2, -1), 0.2), ((0.5, 0.5), 0.23)):
        sent = receive(fed, state)
        uploads = [{key: torch.full_like(tensor, gate) for key, tensor in sent.items()} for gate in gates]
        returned = (Sent(None, *item) for item in zip((0.25, 0.75), uploads, strict=True))
        weights, server = fed.algorithm.aggregate(weights, fed.server(state), returned)
        state = replace(state, weights=weights, server=server)
        assert weights["fusion.gate"].flatten().tolist() == pytest.approx([expected] * weights["fusion.gate"].numel())
        mean = 0.25 * gates[0] + 0.75 * gates[1]
        assert all((weights[key] == mean).all() for key in sent if key != "fusion.gate")
        assert (receive(fed, state)["fusion.gate"] == weights["fusion.gate"]).all()


def test_without_smoothing_the_gates_are_a_mean():
    fed = fused(operator="multi", ema=0.0)
    start, _ = fed.start()
    returned = [weights for weights, _ in local(fed, receive(fed, start), [0, 1, 2])]
    sent = [Sent(None, *item) for item in zip((0.2, 0.3, 0.5), returned, strict=True)]
    new, _ = fed.algorithm.aggregate(start.weights, fed.server(start), sent)
    mean = sum(share * upload["fusion.gate"] for share, upload in zip((0.2, 0.3, 0.5), returned, strict=True))
    assert torch.allclose(new["fusion.gate"], mean, rtol=1e-12) and (mean != 0).all()


def extracted(fed, weights, x):
    part = {key.removeprefix("extractor."): tensor for key, tensor in weights.items() if key.startswith("extractor.")}
    return functional_call(fed.algorithm.net.extractor, part, (x,))


def logits_by_hand(fed, local, reference, x):
    """The fused network with E_l from `local`, E_g from `reference`, all else from `local`."""
    gate = local["fusion.gate"]
    features = (gate * extracted(fed, reference, x) + (1 - gate) * extracted(fed, local, x)).flatten(1)
    features = torch.relu(features @ local["hidden.fc1.layer.weight"].T + local["hidden.fc1.layer.bias"])
    return features @ local["head.weight"].T + local["head.bias"]


def after_a_round(fed):
    """The state after one round, its gates set to 0.6: of themselves they are so small at first that E_g hardly matters."""
    state, _ = advance(fed, 1)
    gate = torch.full_like(state.weights["fusion.gate"], 0.6)
    return replace(state, weights=state.weights | {"fusion.gate": gate})


def measured(logits, y):
    return (logits.argmax(1) == y).double().mean().item(), F.cross_entropy(logits, y).item()


@pytest.mark.parametrize("tested_with", ["previous", "new"])
def test_global_model_is_tested_with_the_extractor_of_the_round_before(tested_with):
    fed = fused(operator="multi", tested_with=tested_with)
    before = after_a_round(fed)
    after, row = fed.advance(before)
    x, y = fed.data.test_x, fed.data.test_y
    reference = {"previous": before, "new": after}[tested_with].weights
    expected = measured(logits_by_hand(fed, after.weights, reference, x), y)
    assert (row["test_accuracy"], row["test_loss"]) == pytest.approx(expected, rel=1e-12)
    other = measured(logits_by_hand(fed, after.weights, {"previous": after, "new": before}[tested_with].weights, x), y)
    assert row["test_loss"] != pytest.approx(other[1], rel=1e-4)


def test_a_client_is_tested_with_the_extractor_that_it_received():
    fed = fused(operator="multi")
    state = after_a_round(fed)
    received = receive(fed, state)
    [(trained, _)] = local(fed, received, [0], 2)
    x, y = fed.data.test_x, fed.data.test_y
    found = scores(fed, fed.algorithm.personal(trained, received), x, y)
    assert found == pytest.approx(measured(logits_by_hand(fed, trained, received, x), y), rel=1e-12)
    assert found[1] != pytest.approx(scores(fed, trained, x, y)[1], rel=1e-4)  # E_g = E_l
    assert scores(fed, received, x, y) == pytest.approx(measured(logits_by_hand(fed, received, received, x), y), rel=1e-12)


def test_rounds_test_clients_with_the_extractor_that_they_received():
    fed = fused(operator="multi")
    state = after_a_round(fed)
    _, row = fed.advance(state)
    received = receive(fed, state)
    trained = local(fed, received, fed.cohort(2), 2)
    accuracies = []
    for client, (weights, _) in zip(fed.cohort(2), trained, strict=True):
        x, y = fed.data.test_part(client, 2)
        accuracies.append(measured(logits_by_hand(fed, weights, received, x), y)[0])
    assert row["personal_accuracy"] == pytest.approx(np.mean(accuracies))


def test_rounds_test_what_a_client_is_said_to_be_tested_with(monkeypatch):
    """One that says class 3 of every image has the share of threes in the own test parts, whatever was trained."""
    fed = fused(operator="multi")
    state = after_a_round(fed)
    _, usual = fed.advance(state)
    threes = [(fed.data.test_part(client, 2)[1] == 3).double().mean().item() for client in fed.cohort(2)]
    own, bias = fed.algorithm.personal, 1e6 * torch.eye(10)[3].double()
    monkeypatch.setattr(fed.algorithm, "personal", lambda weights, received: own(weights, received) | {"head.bias": bias})
    _, row = fed.advance(state)
    assert row["personal_accuracy"] == pytest.approx(np.mean(threes)) != usual["personal_accuracy"]
    assert row["initial_accuracy"] == usual["initial_accuracy"]


@pytest.mark.parametrize("operator", ["conv", "multi", "single"])
def test_received_extractor_is_frozen(operator):
    fed = fused(operator=operator)
    start = fed.start()[0].weights
    received, moved = ({key: t + 0.1 * normal(*t.shape, seed=seed) for key, t in start.items()} for seed in (0, 1))
    x, y = train_part(fed, 0)
    (maps,) = fed.algorithm.frozen(received, x, {})
    assert torch.equal(maps, extracted(fed, received, x))
    theirs, ours = ({key: t.clone().requires_grad_() for key, t in weights.items()} for weights in (received, moved))
    loss = fed.algorithm.loss(ours, theirs, Batch(x, y, (maps,)))
    assert torch.autograd.grad(loss, list(theirs.values()), allow_unused=True, retain_graph=True) == (None,) * len(theirs)
    assert all((slope != 0).any() for slope in torch.autograd.grad(loss, list(ours.values())))


def test_fusion_starts_from_its_generator():
    shape = (1, 12, 12)
    starts = []
    for seed in (0, 0, 1):
        net = models.build(Choice(name="mnist_cnn", width=0.1), shape, 10, rng.generator(0, "weights"))
        state = torch.get_rng_state()
        task, choice = tasks.create(Choice(name="classification"), 10), Choice(name="fedfusion", operator="conv")
        algorithm = algorithms.create(choice, net, rng.generator(seed, "algorithm"), task)
        assert torch.equal(torch.get_rng_state(), state)
        starts.append(algorithm.net.fusion.convolution)
    one, again, other = starts
    assert torch.equal(one.weight, again.weight) and not torch.equal(one.weight, other.weight)
    bound = 1 / math.sqrt(12)  # 6 maps of each extractor
    assert one.weight.shape == (6, 12, 1, 1) and 0.9 * bound < one.weight.abs().max() <= bound
    assert one.bias.abs().min() > 0 and one.bias.abs().max() <= bound
