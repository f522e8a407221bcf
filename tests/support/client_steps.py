"""A client's loss, gradient and steps against the same in NumPy: a 1x1 convolution, batch
normalisation for a method that asks for it, and two linear layers.

`pull(w, at)` is what a method adds to the loss and to its derivatives by the logits, by the layer
before them and by each weight, at the weights `w`, in a `Scene`. `fuse` is what a method makes of
the convolution's maps.
"""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from fedrepro import models
from fedrepro.algorithms.base import Batch, Client, Server
from fedrepro.core import rng
from fedrepro.models import Conv, Dense, Head
from fedrepro.training.executors import Sequential
from support.federation import assert_close, config
from support.networks import classifying, fits

LABELS = (0, 1, 2, 0, 1, 0)  # of the scene's images
NORM = "extractor.conv1.norm."  # before the names of what a batch normalisation has


class Scene(NamedTuple):
    """What one client meets in a round: received weights, its own state, six images of 2 channels
    of 1x2 and their labels. `training`: whether batch normalisation takes the statistics of these
    images."""

    received: dict
    kept: dict
    x: object
    y: object
    training: bool = False


def randn_like(tensors: dict, generator: torch.Generator) -> dict:
    floating = {key: tensor for key, tensor in tensors.items() if tensor.is_floating_point()}
    return {
        key: torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        for key, tensor in floating.items()
    }


def none(w, at):
    return 0.0, 0.0, 0.0, {}


def alone(w, local, frozen):
    """The maps that the dense layers see, and from the derivative by those the one by the local
    maps and by fusion weights."""
    return local, lambda slope: (slope, {})


def convolution(w, x):
    weight, bias = (w[f"extractor.conv1.layer.{name}"] for name in ("weight", "bias"))
    return np.einsum("oi,nihw->nohw", weight[:, :, 0, 0], x) + bias[:, None, None]


def normalised(w, maps, training):
    """Batch normalisation, if the network has it, and from the slope by its outcome those by the
    maps and by its weights."""
    if NORM + "weight" not in w:
        return maps, lambda slope: (slope, {})
    over = (0, 2, 3)
    mean, variance = (
        (maps.mean(over), maps.var(over))
        if training
        else (w[NORM + "running_mean"], w[NORM + "running_var"])
    )
    scale = (1 / np.sqrt(variance + 1e-5))[:, None, None]
    standard, weight = (maps - mean[:, None, None]) * scale, w[NORM + "weight"][:, None, None]

    def back(slope):
        inner = slope * weight
        if training:
            inner = (
                inner
                - inner.mean(over, keepdims=True)
                - standard * (inner * standard).mean(over, keepdims=True)
            )
        return inner * scale, {
            NORM + "weight": (slope * standard).sum(over),
            NORM + "bias": slope.sum(over),
        }

    return standard * weight + w[NORM + "bias"][:, None, None], back


def statistics(w, x):
    """The running statistics after a training step with these weights."""
    if NORM + "weight" not in w:
        return {}
    maps = convolution(w, x)
    images = maps[:, 0].size
    found = {
        "running_mean": maps.mean((0, 2, 3)),
        "running_var": maps.var((0, 2, 3)) * images / (images - 1),
    }
    moved = {NORM + name: 0.9 * w[NORM + name] + 0.1 * value for name, value in found.items()}
    return moved | {NORM + "num_batches_tracked": w[NORM + "num_batches_tracked"] + 1}


def extracted(w, x, training=False):
    return normalised(w, convolution(w, x), training)[0]


def whole(weight, inputs):
    """A dense layer's matrix, and a function from a slope by it to one by `weight`; groups are
    blocks on its diagonal."""
    rows, columns = weight.shape
    groups = inputs // columns
    own = np.kron(np.eye(groups), np.ones((rows // groups, columns)))
    return np.tile(
        weight, (1, groups)
    ) * own, lambda slope: (slope * own).reshape(rows, groups, columns).sum(1)


def classified(w, maps):
    maps = maps.reshape(len(maps), -1)
    features = (
        maps @ whole(w["hidden.fc1.layer.weight"], maps.shape[1])[0].T + w["hidden.fc1.layer.bias"]
    )
    return features @ whole(w["head.weight"], features.shape[1])[0].T + w["head.bias"], features


def outputs(w, x):
    return classified(w, extracted(w, x))


def by_hand(w, at, pull, fuse):
    """Loss and gradient: the mean cross entropy and what `pull` adds."""
    local, through = normalised(w, convolution(w, at.x), at.training)
    maps, back = fuse(w, local, extracted(at.received, at.x))
    logits, features = classified(w, maps)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    value, by_logits, by_features, by_weights = pull(w, at)
    loss = np.mean([-math.log(chances[image, label]) for image, label in enumerate(at.y)]) + value
    at_logits = (chances - np.eye(logits.shape[1])[at.y]) / len(at.y) + by_logits
    head, by_head = whole(w["head.weight"], features.shape[1])
    dense, by_dense = whole(w["hidden.fc1.layer.weight"], maps[0].size)
    at_features = at_logits @ head + by_features
    at_local, by_fusion = back((at_features @ dense).reshape(maps.shape))
    at_maps, by_norm = through(at_local)
    gradient = (
        by_fusion
        | by_norm
        | {
            "head.weight": by_head(at_logits.T @ features),
            "head.bias": at_logits.sum(0),
            "hidden.fc1.layer.weight": by_dense(at_features.T @ maps.reshape(len(maps), -1)),
            "hidden.fc1.layer.bias": at_features.sum(0),
            "extractor.conv1.layer.weight": np.einsum("nohw,nihw->oi", at_maps, at.x)[
                :, :, None, None
            ],
            "extractor.conv1.layer.bias": at_maps.sum((0, 2, 3)),
        }
    )
    return loss, {key: gradient[key] + by_weights.get(key, 0.0) for key in gradient}


def three_layers(name: str, options: dict, labels: tuple[int, ...] = LABELS):
    """The method on a small linear network, a scene in which nothing is neutral, what the client
    prepares, and weights away from those it received. What a method adds to the network starts at
    random here too."""
    draw = rng.generator(1, "three layers")
    nets = (
        [Conv("conv1", 2, 1, activation=None, norm=norm), Dense("fc1", 3, activation=None), Head(3)]
        for norm in ("none", "batch")
    )
    blocks = next(blocks for blocks in nets if fits(name, options, blocks))
    net = models.assemble(blocks, (2, 1, 2), "pytorch", rng.generator(1, "weights")).double()
    algorithm = classifying(name, options, net)

    def moved(tensors: dict) -> dict:
        return tensors | {
            key: tensors[key] + 0.3 * noise for key, noise in randn_like(tensors, draw).items()
        }

    start = dict(algorithm.net.state_dict())
    noise = randn_like({key: start[key] for key in algorithm.trained}, draw)
    weights = start | {key: 0.5 * tensor for key, tensor in noise.items()}
    x, y = torch.randn(6, 2, 1, 2, generator=draw, dtype=torch.float64), torch.tensor(labels)
    batches, classes = [Batch(x, y)], y.bincount(minlength=3)
    server = Server(2, 4, 0.25, moved(algorithm.initial_state(weights)), lambda: iter(batches))
    server = replace(server, state=algorithm.server_prepare(weights, server))
    received = algorithm.broadcast(weights, server)
    client = Client(0, 6, 2, 0.5, 0.0, {}, lambda: classes, lambda: iter(batches))
    client = replace(client, state=moved(algorithm.finish(moved(weights), received, client).state))
    own = algorithm.prepare(received, client)
    return (
        algorithm,
        Scene(received, client.state, x, y),
        own,
        {key: moved(weights)[key] for key in algorithm.names},
    )


def arrays(tensors):
    return {key: tensor.detach().numpy() for key, tensor in tensors.items()}


def in_numpy(scene: Scene) -> Scene:
    return Scene(arrays(scene.received), arrays(scene.kept), scene.x.numpy(), scene.y.numpy())


def check_gradient(
    name: str, options: dict, pull, fuse=alone, labels: tuple[int, ...] = LABELS
) -> None:
    """Compare loss and gradient at weights away from the received ones."""
    algorithm, scene, own, moved = three_layers(name, options, labels)
    leaves = {key: moved[key].requires_grad_() for key in algorithm.trained}
    batch = Batch(
        scene.x, scene.y, algorithm.reference_outputs(scene.received, scene.x, own), constants=own
    )
    loss = algorithm.loss(moved | leaves, scene.received, batch)
    gradient = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    value, slopes = by_hand(arrays(moved), in_numpy(scene), pull, fuse)
    assert loss.item() == pytest.approx(value, rel=1e-12)
    assert_close(gradient, {key: torch.from_numpy(slopes[key]) for key in gradient}, 1e-12)


def check_steps(
    name: str, options: dict, pull, fuse=alone, labels: tuple[int, ...] = LABELS
) -> None:
    """Compare two steps. Most methods equal FedAvg in the first, at the received weights, but not
    in the second."""
    algorithm, scene, own, _ = three_layers(name, options, labels)
    batch = Batch(
        scene.x, scene.y, algorithm.reference_outputs(scene.received, scene.x, own), constants=own
    )
    start = {"received": scene.received, "start": scene.received, "velocity": {}}
    client = SimpleNamespace(sizes=[6, 6], batch=lambda step: batch, constants=own, **start)
    executor = Sequential(algorithm, config(batch_size=6), None)
    [(trained, loss, _)] = executor.train([client], 0.5, algorithm.trained)
    at, losses = in_numpy(scene)._replace(training=True), []
    w = {key: at.received[key] for key in algorithm.names}
    for _ in range(2):
        value, slopes = by_hand(w, at, pull, fuse)
        losses.append(value)
        w = {
            key: w[key] - 0.5 * slopes[key] if key in slopes else w[key] for key in w
        } | statistics(w, at.x)
    assert_close(trained, {key: torch.as_tensor(w[key]) for key in trained}, 1e-12)
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-12)


def check_client(name: str, options: dict, pull, labels: tuple[int, ...] = LABELS) -> None:
    """Compare a client's training with these options of a method, on images of these three classes,
    or of some of them."""
    check_gradient(name, options, pull, labels=labels)
    check_steps(name, options, pull, labels=labels)
