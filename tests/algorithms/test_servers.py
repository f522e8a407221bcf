"""Two rounds of every method's server against the same in NumPy, and that every method learns.

New files in the registry are tested without a change here, but for a server written by hand: in
`SERVERS`, or with `check_server` in a file of the method's own.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from support.federation import ALGORITHMS
from support.own_steps import own_checks
from support.server_steps import (
    CLASSES,
    CLIENTS,
    SHARE,
    SHARES,
    averaged,
    check_server,
    shared,
    weighted,
)

# Servers by hand: from a `Scene` to the new weights and the new state.


def normalised_steps(at):
    """FedNova: x - (sum p |a|) sum p (x - y) / |a|, |a| counted step by step; statistics are
    averaged."""
    counts = []
    for sent in at.phases[0]:
        velocity = count = 0.0
        for _ in range(sent.client.steps):
            velocity = sent.client.momentum * velocity + 1
            count += velocity
        counts.append(count)
    new, _ = averaged(at)
    effective = sum(share * count for share, count in zip(SHARES, counts, strict=True))
    for name in at.method.trained:
        pull = sum(
            sent.share * (at.weights[name] - sent.message[name]) / count
            for sent, count in zip(at.phases[0], counts, strict=True)
        )
        new[name] = at.weights[name] - effective * pull
    return new, {}


def controlled(server_lr, at):
    """SCAFFOLD: x + server_lr * mean (y - x), c + sum over the participants of p (c_i' - c_i), p
    their weights among all."""
    new, _ = averaged(at)
    state = {}
    for name in at.method.trained:
        new[name] = at.weights[name] + server_lr * (new[name] - at.weights[name])
        changes = sum(SHARE * sent.share * sent.message[f"control.{name}"] for sent in at.phases[0])
        state[f"control.{name}"] = at.state[f"control.{name}"] + changes
    return new, state


def dynamic(alpha, at):
    """FedDyn: h - alpha * sum over the participants of p (y - x), p their weights among all; mean y
    - h / alpha."""
    new, _ = averaged(at)
    state = {}
    for name in at.method.trained:
        moved = sum(
            SHARE * sent.share * (sent.message[name] - at.weights[name]) for sent in at.phases[0]
        )
        state[name] = at.state[name] - alpha * moved
        new[name] = new[name] - state[name] / alpha
    return new, state


def adaptive(server_lr, beta1, beta2, tau, yogi, at):
    """FedAdam and FedYogi, number by number."""
    new, _ = averaged(at)
    state = {}
    for name in at.method.trained:
        m, v = (at.state[f"{kind}.{name}"].copy() for kind in ("m", "v"))
        for place in np.ndindex(v.shape):
            d = new[name][place] - at.weights[name][place]
            m[place] = beta1 * m[place] + (1 - beta1) * d
            if not yogi:
                v[place] = beta2 * v[place] + (1 - beta2) * d**2
            elif v[place] > d**2:
                v[place] -= (1 - beta2) * d**2
            else:
                v[place] += (1 - beta2) * d**2
        new[name] = at.weights[name] + server_lr * m / (np.sqrt(v) + tau)
        state |= {f"m.{name}": m, f"v.{name}": v}
    return new, state


def summed(at):
    """FedCurv: the mean of the weights, and what changed in each client's part of the two sums."""
    added = {name: sum(sent.message[name] for sent in at.phases[0]) for name in at.state}
    return averaged(at)[0], {name: total + added[name] for name, total in at.state.items()}


def fused(ema, previous, at):
    """FedFusion: the mean of the weights, but a moving average of lambda; the last extractor
    stays."""
    new, _ = averaged(at)
    if "fusion.gate" in new:
        new["fusion.gate"] = ema * at.weights["fusion.gate"] + (1 - ema) * new["fusion.gate"]
    extractor = {
        f"global_{name}": value
        for name, value in at.weights.items()
        if name.startswith("extractor.")
    }
    return new, extractor if previous else {}


def grouped(trim, at):
    """Psi-Net, a group for each class: the mean of a group over who has its class; the last one
    stays, since nobody has it."""
    new = {name: weighted(name, at) for name in at.weights if name not in at.method.grouped}
    for name in at.method.grouped:
        parts = np.split(at.weights[name].copy(), 3)
        for group in range(3):
            total = shares = 0.0
            for sent, classes in zip(at.phases[0], CLASSES, strict=True):
                held = [label for label in range(3) if classes[label] or not trim]
                if group in held:
                    total = total + sent.share * sent.message[name][held.index(group)]
                    shares += sent.share
            if shares:
                parts[group] = total / shares
        new[name] = np.concatenate(parts)
    return new, {}


def matched(at):
    """FedMA, of clients whose units kept their order: a layer is the mean of what was sent in its
    phase, the head class by class, by the images of it; a class that nobody has counts for all
    alike."""
    blocks, new, state = list(at.method.layers), {}, {}
    for (block, _), phase in zip(pairwise(blocks), at.phases, strict=False):
        for name in at.method.layers[block]:
            new[name] = sum(sent.message[name] for sent in phase) / len(phase)
        state[f"units.{block}"] = np.tile(np.arange(len(new[name])), (CLIENTS, 1))
    for name in at.method.layers[blocks[-1]]:
        counts = np.array(CLASSES)
        rows = []
        for label in range(3):
            own = [sent.message[name][label] for sent in at.phases[-1]]
            images = counts[:, label] if counts[:, label].sum() else np.ones(len(own))
            rows.append(sum(n * value for n, value in zip(images, own, strict=True)) / images.sum())
        new[name] = np.stack(rows)
    return new, state


SERVERS = [
    ("fedavg", {}, averaged),
    ("fedprox", {}, averaged),
    ("l2", {}, averaged),
    ("fedmmd", {}, averaged),
    ("fedmax", {}, averaged),
    ("activation_l2", {}, averaged),
    ("fedcl", {}, averaged),
    ("fedcl", {"every": 2}, averaged),
    ("fednova", {}, normalised_steps),
    ("scaffold", {"server_lr": 0.7}, partial(controlled, 0.7)),
    ("feddyn", {"alpha": 0.7}, partial(dynamic, 0.7)),
    *(
        (
            "fedopt",
            {"optimizer": name, "server_lr": 0.7, "beta1": 0.8, "beta2": 0.6, "tau": 0.07},
            partial(adaptive, 0.7, 0.8, 0.6, 0.07, name == "yogi"),
        )
        for name in ("adam", "yogi")
    ),
    ("moon", {}, averaged),
    ("fedcurv", {}, summed),
    ("fedfusion", {"operator": "conv"}, partial(fused, 0.9, True)),
    ("fedfusion", {"operator": "multi", "ema": 0.8}, partial(fused, 0.8, True)),
    ("fedfusion", {"operator": "single", "tested_with": "new"}, partial(fused, 0.9, False)),
    ("psi_net", {}, partial(grouped, True)),
    ("psi_net", {"trim": False}, partial(grouped, False)),
    ("fedma", {"grow": False}, matched),
    ("fedbn", {}, partial(shared, "extractor.conv1.norm.")),
    ("fedper", {"layers": 2}, partial(shared, ("hidden.fc1.", "head."))),
    ("lg_fedavg", {"layers": 1}, partial(shared, "extractor.conv1.")),
]


def test_every_method_has_a_server_by_hand():
    missing = set(ALGORITHMS) - {name for name, *_ in SERVERS} - own_checks("check_server")
    assert not missing, (
        f"write in NumPy what the server of {', '.join(sorted(missing))} does in a round and add "
        "it to SERVERS, with options away from the neutral ones; if it does what FedAvg's does, "
        "that is `averaged`"
    )


@pytest.mark.parametrize(
    ("name", "options", "by_hand"),
    SERVERS,
    ids=[f"{c[0]}-{'-'.join(map(str, c[1].values()))}" for c in SERVERS],
)
def test_two_rounds_of_the_server_by_hand(name, options, by_hand):
    check_server(name, options, by_hand)
