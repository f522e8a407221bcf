"""An expert's loop in JAX: one compiled round, which scans over local steps.

The clients of a round are a batch axis (`vmap`) for the logistic model. Their convolutions would
become grouped ones, for which XLA has no fast kernel on a processor: the clients of a convolutional
network are mapped one after the other (`lax.map`).
"""

import math
import os
from typing import Any

import numpy as np

from benchmarks.clock import Clock
from benchmarks.contenders import common
from benchmarks.workloads import Task

Weights = dict[str, Any]  # jax arrays by torch's names
IMAGES = 500  # per forward pass of an evaluation, at most


def run(task: Task, clock: Clock) -> None:
    """Train `task.config.rounds` rounds of federated averaging with plain SGD."""
    config = task.config
    if (
        config.algorithm.name != "fedavg"
        or config.augment
        or config.momentum
        or config.weight_decay
    ):
        raise ValueError("the JAX loop trains FedAvg with plain SGD, without augmentation")
    if config.model.name not in ("logistic", "mnist_cnn"):
        raise ValueError(f"the JAX loop has no network {config.model.name}")
    # XLA's thread pools are as large as the set of processors that they find
    if task.device == "cpu":
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[task.rank]})
    import jax
    from jax import numpy as jnp

    data = common.material(task)
    owned = np.stack(
        [data.partition.train_indices(client, 1) for client in range(data.partition.clients)]
    )
    train, test = ([jnp.asarray(array.cpu().numpy()) for array in pair] for pair in _pairs(data))
    weights = {
        name: jnp.asarray(value.numpy())
        for name, value in common.fresh(task).cpu().state_dict().items()
    }
    advance, correct = _round(config, *train), _correct(*test)
    key = jax.random.key(config.seed)
    clock.mark(float(correct(weights)))
    for round in range(1, config.rounds + 1):
        clients = common.cohort(task, round)
        keys = jax.random.split(jax.random.fold_in(key, round), len(clients))
        weights = jax.block_until_ready(advance(weights, jnp.asarray(owned[clients]), keys))
        clock.steps += len(clients) * config.local_epochs * (owned.shape[1] // config.batch_size)
        clock.mark(float(correct(weights)) if clock.due(round) else None)


def _pairs(data: common.Material) -> tuple:
    return (data.train_x, data.train_y), (data.test_x, data.test_y)


def _scores(weights: Weights, images: Any) -> Any:
    """Return the scores (B, classes) of images (B, C, H, W) by logistic regression or the MNIST
    network."""
    import jax
    from jax import lax

    for name in ("extractor.conv1.layer", "extractor.conv2.layer"):
        if f"{name}.weight" in weights:
            images = lax.conv_general_dilated(images, weights[f"{name}.weight"], (1, 1), "SAME")
            images = images + weights[f"{name}.bias"][:, None, None]
            images = jax.nn.relu(
                lax.reduce_window(images, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            )
    features = images.reshape(len(images), -1)
    if "hidden.fc1.layer.weight" in weights:
        features = jax.nn.relu(
            features @ weights["hidden.fc1.layer.weight"].T + weights["hidden.fc1.layer.bias"]
        )
    return features @ weights["head.weight"].T + weights["head.bias"]


def _round(config: Any, images: Any, labels: Any) -> Any:
    """Return a compiled function of global weights, clients' image indices (clients, n) and keys:
    the clients' mean weights."""
    import jax
    from jax import numpy as jnp

    def loss(weights: Weights, batch: Any) -> Any:
        logs = jax.nn.log_softmax(_scores(weights, images[batch]))
        return -jnp.take_along_axis(logs, labels[batch][:, None], 1).mean()

    def step(weights: Weights, batch: Any) -> tuple[Weights, None]:
        gradient = jax.grad(loss)(weights, batch)
        return {name: weights[name] - config.lr * gradient[name] for name in weights}, None

    def train(weights: Weights, own: Any, key: Any) -> Weights:
        order = [
            jax.random.permutation(one, own) for one in jax.random.split(key, config.local_epochs)
        ]
        return jax.lax.scan(step, weights, jnp.concatenate(order).reshape(-1, config.batch_size))[0]

    @jax.jit
    def advance(weights: Weights, owned: Any, keys: Any) -> Weights:
        if config.model.name == "logistic":
            trained = jax.vmap(train, in_axes=(None, 0, 0))(weights, owned, keys)
        else:
            trained = jax.lax.map(lambda pair: train(weights, *pair), (owned, keys))
        return {name: value.mean(0) for name, value in trained.items()}

    return advance


def _correct(images: Any, labels: Any) -> Any:
    """Return a compiled function of weights: the share of correctly classified test images,
    0..1."""
    import jax

    batches = images.reshape(-1, math.gcd(IMAGES, len(labels)), *images.shape[1:])

    @jax.jit
    def correct(weights: Weights) -> Any:
        scores = jax.lax.map(lambda batch: _scores(weights, batch), batches)
        return (scores.reshape(len(labels), -1).argmax(1) == labels).mean()

    return correct
