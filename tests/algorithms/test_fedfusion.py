"""FedFusion: messages, the moving average, and the extractors in tests. Its steps by hand:
test_algorithms.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from fedrepro.training.round import message_bytes, run_round
from support.federation import advance, config, federation, local, receive


def fused(**options):
    return federation(config(algorithm={"name": "fedfusion", **options}))


@pytest.mark.parametrize(
    ("operator", "extra"), [("conv", 2 * 3 * 3 + 3), ("multi", 3), ("single", 1)]
)
def test_bytes_of_fusion(operator, extra):
    """Extractor, fusion and classifier, in both directions: a client makes E_g from what it
    receives. Three maps here."""
    fed, plain = fused(operator=operator), federation(config())
    state, rows = advance(fed, 2)
    weights = extra + sum(tensor.numel() for tensor in plain.algorithm.net.parameters())
    assert fed.algorithm.net.channels == 3
    assert [(row["bytes_down"], row["bytes_up"]) for row in rows[1:]] == [
        (3 * 8 * weights, 3 * 8 * weights)
    ] * 2
    assert message_bytes(receive(fed, state)) == 8 * weights == message_bytes(state.weights)


def extracted(fed, weights, x):
    part = {
        key.removeprefix("extractor."): tensor
        for key, tensor in weights.items()
        if key.startswith("extractor.")
    }
    return functional_call(fed.algorithm.net.extractor, part, (x,))


def logits_by_hand(fed, local, reference, x):
    """The fused network with E_l from `local`, E_g from `reference`, all else from `local`."""
    gate = local["fusion.gate"]
    features = (
        gate * extracted(fed, reference, x) + (1 - gate) * extracted(fed, local, x)
    ).flatten(1)
    features = torch.relu(
        features @ local["hidden.fc1.layer.weight"].T + local["hidden.fc1.layer.bias"]
    )
    return features @ local["head.weight"].T + local["head.bias"]


def after_a_round(fed):
    """The state after one round, its gates set to 0.6: of themselves they are so small at first
    that E_g hardly matters."""
    state, _ = advance(fed, 1)
    gate = torch.full_like(state.weights["fusion.gate"], 0.6)
    return replace(state, weights=state.weights | {"fusion.gate": gate})


def measured(logits, y):
    return (logits.argmax(1) == y).double().mean().item(), F.cross_entropy(logits, y).item()


@pytest.mark.parametrize("tested_with", ["previous", "new"])
def test_global_model_is_tested_with_the_extractor_of_the_round_before(tested_with):
    fed = fused(operator="multi", tested_with=tested_with)
    before = after_a_round(fed)
    after, row = run_round(fed, before)
    x, y = fed.data.test_x, fed.data.test_y
    reference = {"previous": before, "new": after}[tested_with].weights
    expected = measured(logits_by_hand(fed, after.weights, reference, x), y)
    assert (row["test_accuracy"], row["test_loss"]) == pytest.approx(expected, rel=1e-12)
    other = measured(
        logits_by_hand(
            fed, after.weights, {"previous": after, "new": before}[tested_with].weights, x
        ),
        y,
    )
    assert row["test_loss"] != pytest.approx(other[1], rel=1e-4)


def test_rounds_test_clients_with_the_extractor_that_they_received():
    fed = fused(operator="multi")
    state = after_a_round(fed)
    _, row = run_round(fed, state)
    received = receive(fed, state)
    trained = local(fed, received, fed.cohort(2), 2)
    accuracies = []
    for client, (weights, _) in zip(fed.cohort(2), trained, strict=True):
        x, y = fed.data.test_part(client, 2)
        accuracies.append(measured(logits_by_hand(fed, weights, received, x), y)[0])
    assert row["personal_accuracy"] == pytest.approx(np.mean(accuracies))
