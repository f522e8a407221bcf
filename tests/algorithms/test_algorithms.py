"""Rules for every algorithm, a hand-computed step of each, and its results against stored ones.

New files in the registry are tested without a change here, but for a hand-computed step (in
`METHODS`, or with `check_client` in a file of the method's own) and a stored result
(`FEDREPRO_UPDATE_GOLDEN=my_method pytest tests/algorithms/test_algorithms.py -k golden`).
"""

import functools
import json
import math
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from fedrepro import algorithms, models
from fedrepro.algorithms import fedmmd
from fedrepro.algorithms.base import Batch, Client
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import Conv, Dense, Head
from fedrepro.training.round import RoundExecution
from support.client_steps import alone, by_hand, check_steps, none, outputs
from support.federation import (
    ALGORITHMS,
    advance,
    assert_close,
    assert_same,
    config,
    federation,
    images,
    normal,
    receive,
    train_part,
)
from support.networks import classifying
from support.own_steps import own_checks

GOLDEN = Path(__file__).with_name("golden.json")
NEUTRAL = {
    "fedavg": {},
    "activation_l2": {"beta": 0.0},
    "fedcl": {"weight": 0.0},
    "fedcurv": {"weight": 0.0},
    "fedmax": {"beta": 0.0},
    "fedmmd": {"weight": 0.0},
    "fedprox": {"mu": 0.0},
    "l2": {"weight": 0.0},
    "moon": {"mu": 0.0},
    "psi_net": {"groups": 1, "norm": "model"},
}  # options with which a method is FedAvg
BITWISE = ("fedmax", "activation_l2", "fedprox")  # whose weight of zero leaves every bit


def neutral(name: str) -> dict:
    return {"name": name, **NEUTRAL[name]}


def sent(federation, state, shares=(0.2, 0.3, 0.5)):
    """What the first clients send in the round after `state`."""
    returned = RoundExecution(federation, state, {}).train(
        receive(federation, state), range(len(shares))
    )
    return [item._replace(share=share) for item, share in zip(returned, shares, strict=True)]


# Conformance


@pytest.mark.parametrize("name", NEUTRAL)
def test_options_that_make_a_method_fedavg(name):
    """With momentum too; equal to the bit in single precision if the penalty's weight is zero."""
    settings = {"momentum": 0.1, "nesterov": True, "weight_decay": 0.0005}
    if name in BITWISE:
        settings["precision"] = "float32"
    chosen = config(algorithm=neutral(name), **settings)
    plain = chosen.model_copy(update={"algorithm": Choice(name="fedavg")})
    ours, fedavg = (advance(federation(run))[0].weights for run in (chosen, plain))
    assert_same(ours, fedavg) if name in BITWISE else assert_close(ours, fedavg, 1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_kept_momentum_continues_over_rounds(nesterov):
    """With one client and full batches, two rounds equal one round of as many epochs; without kept
    momentum they do not."""
    settings = {
        "partition": {"clients": 1},
        "clients_per_round": 1,
        "batch_size": 80,
        "momentum": 0.9,
        "nesterov": nesterov,
    }
    whole = advance(federation(config(**settings, rounds=1, local_epochs=6)), 1)[0].weights
    kept, reset = (
        advance(federation(config(**settings, rounds=2, local_epochs=3, keep_momentum=keep)), 2)[0]
        for keep in (True, False)
    )
    assert_close(kept.weights, whole, 1e-12)
    assert max((reset.weights[key] - tensor).abs().max() for key, tensor in whole.items()) > 1e-4
    assert not reset.clients and len(kept.clients[0].tensors) == len(whole)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_scaffolds_control_is_the_mean_gradient(momentum, nesterov):
    """Twenty steps along a gradient of 1, by hand."""
    method = federation(config(algorithm={"name": "scaffold"})).algorithm
    start = {name: torch.zeros(1, dtype=torch.float64) for name in method.trained}
    end, velocity = 0.0, 0.0
    for _ in range(20):
        velocity = momentum * velocity + 1
        end -= 0.1 * (1 + momentum * velocity if nesterov else velocity)
    client = Client(0, 6, 20, 0.1, momentum, {}, lambda: torch.ones(1), lambda: iter(()), nesterov)
    received = start | {f"control.{name}": tensor for name, tensor in start.items()}
    sent = method.finish({name: tensor + end for name, tensor in start.items()}, received, client)
    assert all(control.item() == pytest.approx(1) for control in sent.state.values()) and sent.state


@pytest.mark.parametrize("name", ALGORITHMS)
def test_order_of_clients_does_not_matter(name):
    fed = federation(config(algorithm={"name": name}))
    start, _ = fed.start()
    returned = sent(fed, start)
    there, server = fed.algorithm.aggregate(start.weights, fed.server_view(start), returned)
    back, other = fed.algorithm.aggregate(start.weights, fed.server_view(start), returned[::-1])
    assert_close(there, back, 1e-13)
    assert_close(server, other, 1e-13)


@pytest.mark.parametrize("name", ["fedavg", "fedma"])
def test_same_seed_agrees_and_two_seeds_differ(name):
    one, again, other = (
        advance(federation(config(algorithm={"name": name}, seed=seed)), 2)[0] for seed in (1, 1, 2)
    )
    assert_same(one.weights, again.weights)
    assert_same(one.server, again.server)
    assert any(not torch.equal(one.weights[key], other.weights[key]) for key in one.weights)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_dropout_reaches_every_objective_and_no_test(name):
    """Masks of ones change nothing, masks of zeros leave the biases of the last layer, and without
    masks nothing is dropped."""
    fed, plain = (
        federation(
            config(
                algorithm={"name": name}, model={"dropout": rate, "width": 0.1}, precision="float64"
            )
        )
        for rate in (0.5, 0.0)
    )
    start, _ = fed.start()
    received = receive(fed, start)
    x, y = train_part(fed, 0)
    drawn = models.dropout_masks(fed.algorithm.net, len(x), rng.generator(0, "dropout"))
    own = fed.algorithm.prepare(received, RoundExecution(fed, start, {}).client(0))
    batch = Batch(x, y, fed.algorithm.reference_outputs(received, x, own), constants=own)

    def loss(*masks):
        return fed.algorithm.loss(received, received, batch._replace(masks=masks)).item()

    ones, zeros = ([fill(mask) for mask in drawn] for fill in (torch.ones_like, torch.zeros_like))
    assert loss(*ones) == loss() == plain.algorithm.loss(received, received, batch).item()
    assert loss(*drawn) != pytest.approx(loss(), rel=1e-6)
    outputs = fed.algorithm.outputs(received, batch._replace(masks=tuple(zeros)))
    assert torch.equal(outputs.logits, received["head.bias"].expand_as(outputs.logits))
    assert torch.equal(
        fed.algorithm.forward(received, x).logits, plain.algorithm.forward(received, x).logits
    )


# What each method adds to the loss and to its derivatives (`pull`), in NumPy;
# support/client_steps.py has the network.


def proximal(mu, norm, w, at):
    value, slopes = 0.0, {}
    for key in w:
        count = 1 if norm == "sum" else w[key].size
        value += (
            mu
            / 2
            * sum((a - b) ** 2 for a, b in zip(w[key].flat, at.received[key].flat, strict=True))
            / count
        )
        slopes[key] = mu * (w[key] - at.received[key]) / count
    return value, 0.0, 0.0, slopes


def controlled(w, at):
    """<c - c_i, y>."""
    value, slopes = 0.0, {}
    for key in w:
        slopes[key] = at.received["control." + key] - at.kept[key]
        value += sum(a * b for a, b in zip(slopes[key].flat, w[key].flat, strict=True))
    return value, 0.0, 0.0, slopes


def dynamic(alpha, w, at):
    """FedDyn: alpha/2 ||w - w_t||^2 - <g_i, w>."""
    value, slopes = 0.0, {}
    for key in w:
        apart = w[key] - at.received[key]
        value += (alpha / 2 * apart**2 - at.kept[key] * w[key]).sum()
        slopes[key] = alpha * apart - at.kept[key]
    return value, 0.0, 0.0, slopes


def contrasted(mu, temperature, w, at):
    """MOON: the cross entropy of two cosines, where the received network's is the right one."""
    features, *others = (outputs(weights, at.x)[1] for weights in (w, at.received, at.kept))
    value, slope = 0.0, np.zeros_like(features)
    for image, z in enumerate(features):
        cosines, slopes = [], []
        for other in others:
            unit, length = other[image] / np.linalg.norm(other[image]), np.linalg.norm(z)
            cosines.append(unit @ z / length)
            slopes.append(unit / length - cosines[-1] * z / length**2)
        chances = np.exp(np.array(cosines) / temperature)
        chances /= chances.sum()
        value -= mu * math.log(chances[0]) / len(features)
        slope[image] = mu / len(features) / temperature * chances[1] * (slopes[1] - slopes[0])
    return value, 0.0, slope, {}


def anchored(weight, definition, sent, w, at):
    """FedCL: weight * sum Omega (w - w_t)^2, Omega at the received weights on the images of the
    scene, one batch."""
    omega = (
        {key: np.ones(()) for key in w}
        if definition == "identity"
        else omega_by_loops(definition, at, w)
    )
    for key in w:
        if sent:
            np.testing.assert_allclose(at.received["omega." + key], omega[key], rtol=1e-12)
    value, slopes = 0.0, {}
    for key in w:
        value += weight * (omega[key] * (w[key] - at.received[key]) ** 2).sum()
        slopes[key] = 2 * weight * omega[key] * (w[key] - at.received[key])
    return value, 0.0, 0.0, slopes


def omega_by_loops(definition, at, w):
    """From the derivatives of each image's loss alone, or of the scene's as one batch."""
    plain = {key: at.received[key] for key in w}
    images = [
        by_hand(plain, at._replace(x=at.x[[i]], y=at.y[[i]]), none, alone)[1]
        for i in range(len(at.x))
    ]
    whole = by_hand(plain, at, none, alone)[1]
    if definition == "layer_squares":
        return {key: (whole[key] ** 2).sum() / len(images) for key in w}
    if definition == "layer_norm":
        return {
            key: sum(math.sqrt((one[key] ** 2).sum()) for one in images) / len(images) for key in w
        }
    if definition == "model_norm":
        norm = sum(math.sqrt(sum((one[key] ** 2).sum() for key in w)) for one in images) / len(
            images
        )
        return dict.fromkeys(w, norm)
    power = 1 if definition == "absolute" else 2
    return {key: sum(abs(one[key]) ** power for one in images) / len(images) for key in w}


def curved(weight, w, at):
    """FedCurv: weight * (w' A w - 2 w' b), A and b what was received less what the client had sent
    itself."""
    value, slopes = 0.0, {}
    for key in w:
        a, b = (at.received[kind + key] - at.kept[kind + key] for kind in ("curvature.", "pull."))
        value += weight * (a * w[key] ** 2 - 2 * b * w[key]).sum()
        slopes[key] = 2 * weight * (a * w[key] - b)
    return value, 0.0, 0.0, slopes


def half_squares(weight, w, at):
    ours, theirs = outputs(w, at.x)[0], outputs(at.received, at.x)[0]
    value = 0.0
    for image in range(len(at.x)):
        for label in range(ours.shape[1]):
            value += weight * 0.5 * (theirs[image, label] - ours[image, label]) ** 2
    return value, weight * (ours - theirs), 0.0, {}


def discrepancy(weight, on, kernel, floor, w, at):
    which = 0 if on == "logits" else 1
    value, slope = mmd_by_loops(outputs(at.received, at.x)[which], outputs(w, at.x)[which], kernel)
    slope = weight * slope if value > floor else 0.0
    return weight * max(value, floor), *((slope, 0.0) if on == "logits" else (0.0, slope)), {}


def mmd_by_loops(a, b, kernel):
    """Biased squared MMD of the rows of a and b, and its derivative by b."""
    n, value, slope = len(a), 0.0, np.zeros_like(b)
    if kernel == "fixed19":
        sigmas = (
            *(10.0**k for k in range(-6, 1)),
            *range(5, 36, 5),
            *(10.0**k for k in range(2, 7)),
        )
        widths = [2 * sigma for sigma in sigmas]
    else:
        pooled = np.concatenate([a, b])
        total = sum(((p - q) ** 2).sum() for p in pooled for q in pooled)
        widths = [
            total / (len(pooled) ** 2 - len(pooled)) * 2.0**power for power in (-2, -1, 0, 1, 2)
        ]
    for width in widths:
        for i in range(n):
            for j in range(n):
                value += math.exp(-((a[i] - a[j]) ** 2).sum() / width) / n**2
                near = math.exp(-((a[i] - b[j]) ** 2).sum() / width) / n**2
                value -= 2 * near
                slope[j] -= 2 * near * -2 * (b[j] - a[i]) / width
                near = math.exp(-((b[i] - b[j]) ** 2).sum() / width) / n**2
                value += near
                slope[j] += 2 * near * -2 * (b[j] - b[i]) / width  # each pair is met in both orders
    return value, slope


def from_uniform(beta, direction, reduction, w, at):
    features = outputs(w, at.x)[1]
    images, width = features.shape
    scale = beta / (images if reduction == "samples" else images * width)
    value, slope = 0.0, np.zeros_like(features)
    for image, row in enumerate(features):
        p = np.exp(row) / np.exp(row).sum()
        if direction == "uniform_activation":
            value += scale * sum(1 / width * (math.log(1 / width) - math.log(q)) for q in p)
            slope[image] = scale * (p - 1 / width)
        else:
            ratios = [math.log(q / (1 / width)) for q in p]
            divergence = sum(q * ratio for q, ratio in zip(p, ratios, strict=True))
            value += scale * divergence
            slope[image] = scale * p * (np.array(ratios) - divergence)
    return value, 0.0, slope, {}


def sized(beta, norm, w, at):
    features = outputs(w, at.x)[1]
    if norm == "frobenius":
        size = math.sqrt(sum(a * a for a in features.flat))
        return beta * size, 0.0, beta * features / size, {}
    sizes = np.array([math.sqrt(sum(a * a for a in row)) for row in features])
    return beta * sizes.mean(), 0.0, beta * features / sizes[:, None] / len(sizes), {}


def gated(w, local, frozen):
    gate = w["fusion.gate"]

    def back(slope):
        by_gate = np.zeros_like(gate)
        for channel in range(local.shape[1]):
            by_gate[channel % len(gate)] += (
                slope[:, channel] * (frozen[:, channel] - local[:, channel])
            ).sum()
        return (1 - gate) * slope, {"fusion.gate": by_gate}

    return gate * frozen + (1 - gate) * local, back


def convolved(w, local, frozen):
    """Channel by channel, the local ones first."""
    weight = w["fusion.convolution.weight"]
    both = [*local.swapaxes(0, 1), *frozen.swapaxes(0, 1)]
    bias = w.get("fusion.convolution.bias", np.zeros(len(weight)))
    fused = np.stack(
        [
            bias[o] + sum(weight[o, i, 0, 0] * maps for i, maps in enumerate(both))
            for o in range(len(bias))
        ],
        1,
    )

    def back(slope):
        by_weight, by_local = np.zeros_like(weight), np.zeros_like(local)
        for o in range(len(bias)):
            for i, maps in enumerate(both):
                by_weight[o, i, 0, 0] = (slope[:, o] * maps).sum()
            for i in range(local.shape[1]):
                by_local[:, i] += slope[:, o] * weight[o, i, 0, 0]
        return by_local, {
            "fusion.convolution.weight": by_weight,
            "fusion.convolution.bias": slope.sum((0, 2, 3)),
        }

    return fused, back


METHODS = [
    ("fedavg", {}, none, alone),
    ("fednova", {}, none, alone),
    ("psi_net", {}, none, alone),
    ("fedma", {}, none, alone),
    ("fedbn", {}, none, alone),
    ("fedper", {}, none, alone),
    ("lg_fedavg", {}, none, alone),
    ("scaffold", {}, controlled, alone),
    ("fedopt", {}, none, alone),
    ("feddyn", {"alpha": 0.7}, partial(dynamic, 0.7), alone),
    ("moon", {"mu": 0.7, "temperature": 0.4}, partial(contrasted, 0.7, 0.4), alone),
    ("fedcurv", {"weight": 0.4}, partial(curved, 0.4), alone),
    *(
        (
            "fedcl",
            {"weight": 0.4, "importance": name},
            partial(anchored, 0.4, name, name != "identity"),
            alone,
        )
        for name in ("layer_squares", "layer_norm", "model_norm", "absolute", "fisher", "identity")
    ),
    (
        "fedcl",
        {"every": 2, "fallback": "local"},
        partial(anchored, 0.5, "layer_squares", False),
        alone,
    ),
    (
        "fedcl",
        {"every": 2, "fallback": "identity"},
        partial(anchored, 0.5, "identity", False),
        alone,
    ),
    ("fedcl", {"every": 2, "fallback": "none"}, none, alone),
    ("fedprox", {"mu": 0.7}, partial(proximal, 0.7, "sum"), alone),
    ("fedprox", {"mu": 0.7, "norm": "mean"}, partial(proximal, 0.7, "mean"), alone),
    ("l2", {"weight": 0.3}, partial(half_squares, 0.3), alone),
    ("fedmmd", {"weight": 0.6}, partial(discrepancy, 0.6, "logits", "fixed19", 1e-4), alone),
    (
        "fedmmd",
        {"weight": 0.6, "outputs": "features"},
        partial(discrepancy, 0.6, "features", "fixed19", 1e-4),
        alone,
    ),
    (
        "fedmmd",
        {"weight": 0.6, "kernel": "mean_distance"},
        partial(discrepancy, 0.6, "logits", "mean_distance", 1e-4),
        alone,
    ),
    (
        "fedmmd",
        {"weight": 0.6, "floor": 50.0},
        partial(discrepancy, 0.6, "logits", "fixed19", 50.0),
        alone,
    ),
    ("fedfusion", {"operator": "conv"}, none, convolved),
    ("fedfusion", {"operator": "conv", "bias": False}, none, convolved),
    ("fedfusion", {"operator": "multi"}, none, gated),
    ("fedfusion", {"operator": "single"}, none, gated),
    ("activation_l2", {"beta": 0.4}, partial(sized, 0.4, "frobenius"), alone),
    ("activation_l2", {"beta": 0.4, "norm": "samples"}, partial(sized, 0.4, "samples"), alone),
    *(
        (
            "fedmax",
            {"beta": 2.0, "direction": direction, "reduction": reduction},
            partial(from_uniform, 2.0, direction, reduction),
            alone,
        )
        for direction in ("uniform_activation", "activation_uniform")
        for reduction in ("elements", "samples")
    ),
]
by_name = pytest.mark.parametrize(
    ("name", "options", "pull", "fuse"),
    METHODS,
    ids=[f"{m[0]}-{'-'.join(map(str, m[1].values()))}" for m in METHODS],
)


def test_every_method_has_a_step_by_hand():
    missing = set(ALGORITHMS) - {method[0] for method in METHODS} - own_checks("check_client")
    assert not missing, (
        f"write a step of {', '.join(sorted(missing))} by hand in NumPy and add it to METHODS"
    )


@by_name
def test_two_steps_of_a_client_by_hand(name, options, pull, fuse):
    check_steps(name, options, pull, fuse)


@pytest.mark.parametrize(("name", "options", "blocks"), [
    ("fedmax", {}, [Head(3)]),
    ("activation_l2", {}, [Head(3)]),
    ("moon", {}, [Head(3)]),
    ("fedmmd", {"outputs": "features"}, [Head(3)]),
    ("fedfusion", {}, [Dense("fc1", 4), Head(3)]),
    ("fedbn", {}, [Conv("conv1", 2, 1, norm="group"), Dense("fc1", 4), Head(3)]),
    ("fedper", {"layers": 2}, [Dense("fc1", 4), Head(3)]),
    ("lg_fedavg", {}, [Head(3)]),
])  # fmt: skip
def test_a_network_on_which_a_method_would_be_fedavg_is_refused(name, options, blocks):
    net = models.assemble(blocks, (1, 2, 2), "pytorch", rng.generator(0, "weights"), "plain")
    with pytest.raises(UserError, match=f"algorithm {name}: model plain: "):
        classifying(name, options, net)


@pytest.mark.parametrize("norm", ["frobenius", "samples"])
def test_dead_activations_have_no_slope(norm):
    """After a ReLU all values may be 0, where a norm has no gradient."""
    net = models.assemble(
        [Dense("fc1", 4), Head(3)], (2, 1, 1), "pytorch", rng.generator(0, "weights")
    ).double()
    method = classifying("activation_l2", {"beta": 1.0, "norm": norm}, net)
    weights = {name: tensor.clone().requires_grad_() for name, tensor in net.state_dict().items()}
    batch = Batch(torch.zeros(5, 2, 1, 1, dtype=torch.float64), torch.zeros(5, dtype=torch.int64))
    weights["hidden.fc1.layer.bias"] = torch.full(
        (4,), -1.0, dtype=torch.float64, requires_grad=True
    )
    slopes = torch.autograd.grad(method.loss(weights, weights, batch), list(weights.values()))
    assert all(slope.isfinite().all() for slope in slopes)


def test_one_image_under_two_equal_networks_has_a_slope():
    """The mean distance is 0 then: no kernel may be so narrow that its inverse is infinite."""
    outputs = normal(1, 10).requires_grad_()
    fedmmd.mmd2(outputs.detach(), outputs, "mean_distance").backward()
    assert outputs.grad.isfinite().all()


def test_methods_that_bfloat16_rounds_have_a_warning():
    warned = {
        name: algorithms.warning(config(algorithm={"name": name}, precision="bfloat16"))
        for name in ALGORITHMS
    }
    assert not warned["fedavg"] and warned["fedmmd"]
    assert algorithms.warning(config(algorithm={"name": "fedmmd", "floor": 0}, precision="float32"))


@pytest.mark.parametrize("shift", [0.1, 3.0])
def test_mmd_in_single_precision(shift):
    """At the paper's batch size the narrow kernels must survive float32, in value and in
    gradient."""
    a, change = normal(2, 128, 10)
    b = a + shift * change
    results = []
    for dtype in (torch.float64, torch.float32):
        moved = b.to(dtype).requires_grad_()
        value = fedmmd.mmd2(a.to(dtype), moved)
        results.append((value.item(), torch.autograd.grad(value, moved)[0].double()))
    (value, slope), (single, rough) = results
    assert single == pytest.approx(value, rel=5e-5)
    assert float((rough - slope).norm() / slope.norm()) < 1e-5


# Stored numbers


@pytest.mark.parametrize("name", ALGORITHMS)
def test_golden_results(name):
    """Every algorithm, three rounds in float64: fails when any line that computes a number begins
    to compute another. Written again only for the methods that the variable FEDREPRO_UPDATE_GOLDEN
    names."""
    goldens = json.loads(GOLDEN.read_text(encoding="utf-8"))
    stored = goldens.get(name, {})
    found = golden(name, stored.get("options", {}), stored.get("settings", {}))
    if name in os.environ.get("FEDREPRO_UPDATE_GOLDEN", "").split(","):
        goldens[name] = stored = found
        GOLDEN.write_text(
            json.dumps(dict(sorted(goldens.items())), indent=1) + "\n", encoding="utf-8"
        )
    how = f"FEDREPRO_UPDATE_GOLDEN={name} pytest tests/algorithms/test_algorithms.py -k golden"
    assert "weights" in stored, f"{GOLDEN.name}: {name}: no numbers. Make them with {how}."
    assert found["weights"] == pytest.approx(stored["weights"], rel=1e-9)
    for key in ("test_loss", "train_loss"):
        assert found[key] == pytest.approx(stored[key], rel=1e-9), key
    fedavg = golden("fedavg", {}, stored.get("settings", {}))
    assert name == "fedavg" or found["weights"] != pytest.approx(fedavg["weights"], rel=1e-6), (
        f"{name} does nothing"
    )


@functools.cache
def _golden(text: str) -> tuple[dict, dict]:
    state, rows = advance(federation(config(**json.loads(text)), images(train=78)))
    losses = {key: [row[key] for row in rows[1:]] for key in ("test_loss", "train_loss")}
    return losses, {
        key: tensor.double().abs().mean().item() for key, tensor in sorted(state.weights.items())
    }


def golden(name: str, options: dict, settings: dict) -> dict:
    """Losses of each round, and of each tensor of the last global weights the mean magnitude."""
    usual = {
        "partition": {"name": "shards", "clients": 4},
        "weighting": "samples",
        "momentum": 0.5,
        "weight_decay": 0.01,
    }
    usual |= {
        "schedule": {"name": "exponential", "decay": 0.9},
        "algorithm": {"name": name, **options},
    }
    losses, means = _golden(json.dumps(usual | settings))
    return (
        {"options": options}
        | ({"settings": settings} if settings else {})
        | losses
        | {"weights": means}
    )
