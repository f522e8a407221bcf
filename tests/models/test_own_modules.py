"""Networks from torch modules of any kind, in every executor."""

import logging
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrepro import models
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import dropout_masks
from fedrepro.training.federation import Federation
from support.federation import advance, assert_close, assert_same, config, images, partition

SHAPE = (1, 12, 12)
EVEN = {"batch_size": 10, "local_epochs": 1, "clients_per_round": 4}


class Transformer(nn.Module):
    """Embedded pixels, a class token, positions in a buffer, attention, LayerNorm and dropout."""

    def __init__(self, dropout=0.2):
        super().__init__()
        self.embed, self.token = nn.Embedding(8, 8), nn.Parameter(torch.randn(1, 1, 8))
        self.register_buffer("positions", torch.arange(10))
        self.place = nn.Embedding(10, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, dropout=dropout, batch_first=True)
        self.norm, self.scores = nn.LayerNorm(8), nn.Linear(8, 10)

    def forward(self, x):
        tokens = self.embed((F.avg_pool2d(x, 4).flatten(1) * 7).long().clamp(0, 7))
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.place(
            self.positions
        )
        tokens = self.layer(tokens)
        tokens = tokens + self.attention(tokens, tokens, tokens)[0]
        return self.scores(self.norm(tokens)[:, 0])


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout2d(0.3),
        nn.Flatten(),
        nn.Linear(300, 8),
        nn.Dropout(0.5),
        nn.ReLU(),
        nn.Linear(8, 10),
    )


class Changing(nn.Module):
    """A mean in a buffer, which training assigns to or changes in place."""

    def __init__(self, how="assigned"):
        super().__init__()
        self.dense, self.how = nn.Linear(144, 10), how
        self.register_buffer("mean", torch.zeros(144), persistent=how != "hidden")

    def forward(self, x):
        x = x.flatten(1)
        if self.training and self.how == "assigned":
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        elif self.training:
            self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        if self.how == "branching" and self.dense(x).mean() > 0:
            x = 2 * x
        return self.dense(x - self.mean)


class Recurrent(nn.Module):
    """No dense layer at its end."""

    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(12, 10, batch_first=True)

    def forward(self, x):
        return self.cells(x[:, 0])[0][:, -1]


def cumulative():
    """A mean over all steps, for which batch normalisation reads its counter in Python."""
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, momentum=None), nn.Flatten(), nn.Linear(300, 10)
    )


class Fused(nn.Module):
    """Attention in one operation of torch, which could draw dropout but does not."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(12, 10)

    def forward(self, x):
        return self.dense(F.scaled_dot_product_attention(x[:, 0], x[:, 0], x[:, 0]).mean(1))


class OneByOne(torch.autograd.Function):
    """A function that torch cannot compute for a stack."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x):
        return 3 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, slope):
        return 3 * slope


class Unstackable(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(144, 10)

    def forward(self, x):
        return self.dense(OneByOne.apply(x.flatten(1)))


def federated(make, executor="sequential", **changes):
    run, data = config(**{**EVEN, **changes}), images(shape=SHAPE)

    def build(generator):
        return models.from_module(make, SHAPE, 10, generator)

    return Federation(run, data, partition(run, data), torch.device("cpu"), executor, build=build)


@pytest.mark.parametrize(("make", "algorithm"), [
    (Transformer, {"name": "fedavg"}),
    (convolutional, {"name": "fedmax", "beta": 1.0}),
    (Changing, {"name": "fedprox"}),
    (Recurrent, {"name": "fedavg"}),
    (Fused, {"name": "fedavg"}),
])  # fmt: skip
def test_executors_agree(make, algorithm, caplog):
    """With the same dropout in each, drawn for each client and step."""
    ends = {}
    for executor in ("plain", "sequential", "stacked"):
        fed = federated(make, executor, algorithm=algorithm, rounds=2)
        assert fed.executor.name == executor
        ends[executor] = advance(fed)[0].weights
    assert_close(ends["sequential"], ends["plain"], 1e-11)
    assert_close(ends["stacked"], ends["plain"], 1e-11)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(("make", "used"), [
    (Unstackable, "sequential"), (lambda: Changing("branching"), "plain"), (cumulative, "plain"),
])  # fmt: skip
def test_what_cannot_be_stacked_is_trained_one_by_one_with_one_warning(make, used, caplog):
    fed = federated(make, "stacked", rounds=2)
    advance(fed)
    assert fed.executor.name == used
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "trained one by one" in record.getMessage()


class Impure(nn.Module):
    """A forward pass with `work`, which returns what is added to the images."""

    def __init__(self, work):
        super().__init__()
        self.dense, self.work, self.steps, self.seen, self.cache = (
            nn.Linear(144, 10),
            work,
            0,
            [],
            None,
        )
        self.draw, self.mean = np.random.default_rng(0), torch.zeros(144)

    def forward(self, x):
        return self.dense(x.flatten(1) + self.work(self, x.flatten(1)))


def averaged(net, x):
    """Used in evaluation alone."""
    if net.training:
        net.mean = 0.9 * net.mean + 0.1 * x.mean(0)
    return 0 if net.training else net.mean


def remembered(net, x):
    before, net.cache = net.cache, x
    return x if before is None else before


IMPURE = {
    "draws from Python's random": lambda net, x: float(random.random() < 0.01),
    "draws from numpy.random": lambda net, x: np.random.rand(),
    "draws from torch's own generator": lambda net, x: torch.rand(()),
    r"changes extractor.module.module.draw\.": lambda net, x: net.draw.random(),
    r"changes extractor.module.module.seen\.": lambda net, x: net.seen.append(1) or 0,
    r"changes extractor.module.module.steps\.": lambda net, x: (
        setattr(net, "steps", net.steps + 1) or 0
    ),
    "has other results the second time": lambda net, x: np.random.default_rng().random(),
    "has other results the second time.*": averaged,
    "has other results the second time.* register": remembered,
}


@pytest.mark.parametrize(
    ("words", "executor"), zip(IMPURE, 3 * ("plain", "sequential", "stacked"), strict=True)
)
def test_state_and_numbers_that_nobody_keeps_are_refused(words, executor):
    with pytest.raises(UserError, match=f"model Impure: its forward pass {words}"):
        federated(lambda: Impure(IMPURE[words]), executor)


def test_a_buffer_that_is_not_saved_is_refused():
    with pytest.raises(UserError, match="model Changing: .*persistent buffer"):
        federated(lambda: Changing("hidden"))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            nn.Sequential(nn.Flatten(), nn.Linear(144, 7)),
            r"expected scores of shape \(2, 10\).*\(2, 7\)",
        ),
        (nn.Linear(5, 10), "cannot compute images of shape"),
    ],
)
def test_a_module_for_other_images_or_classes_is_refused(module, words):
    with pytest.raises(UserError, match=words):
        federated(module)


def test_initial_weights_are_the_modules_or_follow_the_seed():
    one, again, other = (federated(Transformer, seed=seed).start()[0].weights for seed in (0, 0, 1))
    assert_same(one, again)
    token = "extractor.module.module.token"
    assert not torch.equal(one[token], other[token])
    made, before = Transformer(), torch.get_rng_state()
    weights = federated(made, seed=1).start()[0].weights
    assert torch.equal(weights[token], made.token.double()) and torch.equal(
        weights["head.bias"], made.scores.bias.double()
    )
    assert torch.equal(torch.get_rng_state(), before)


def shared_activation():
    act = nn.ReLU()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(144, 9), act, nn.Linear(9, 9), act, nn.Linear(9, 10)
    )


def shared_weights():
    dense = nn.Linear(144, 144)
    return nn.Sequential(nn.Flatten(), dense, nn.ReLU(), nn.Sequential(dense), nn.Linear(144, 10))


def shared_scores():
    dense = nn.Linear(10, 10)
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 10), dense, nn.ReLU(), dense)


def partly_flattened():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Flatten(2), nn.Softmax(-1), nn.Flatten(), nn.Linear(400, 10)
    )


@pytest.mark.parametrize(("make", "blocks"), [
    (shared_activation, ["1", "2", "3", "4", "head"]), (shared_weights, ["module", "head"]),
    (shared_scores, ["module", "head"]), (partly_flattened, ["module", "head"]),
])  # fmt: skip
def test_repeated_parts_and_partial_flattening_are_kept(make, blocks):
    with models._net.seeded(rng.generator(0, "made")):
        made = make().eval()
    x = torch.rand(5, *SHAPE, generator=rng.generator(0, "x"))
    net = models.from_module(made, SHAPE, 10, rng.generator(0, "weights")).eval()
    assert list(net.blocks) == blocks and torch.allclose(net(x).logits, made(x))
    assert sum(net.tensors[name].numel() for name in net.trained) == sum(
        weight.numel() for weight in made.parameters()
    )


@pytest.mark.parametrize(
    "make",
    [
        Transformer,
        convolutional,
        Changing,
        Recurrent,
        cumulative,
        Fused,
        shared_activation,
        shared_weights,
        shared_scores,
        partly_flattened,
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 10, bias=False)),
    ],
)
def test_a_module_gets_its_weights_back(make):
    """Of its own class and under its own names, whatever blocks it was made into."""
    net = models.from_module(make, SHAPE, 10, rng.generator(0, "weights")).double()
    with torch.no_grad():
        for number, tensor in enumerate(
            weight for weight in net.parameters() if weight.requires_grad
        ):
            tensor += 0.1 * torch.rand(
                tensor.shape, generator=rng.generator(number, "change"), dtype=torch.float64
            )
    x = torch.rand(5, *SHAPE, generator=rng.generator(0, "x"), dtype=torch.float64)
    module = models.to_module(net, net.tensors)
    torch.testing.assert_close(module(x), net.eval()(x).logits)
    fresh = make().double().eval()
    assert type(fresh) is type(module) and not net.training
    fresh.load_state_dict(module.state_dict(), strict=True)
    torch.testing.assert_close(fresh(x), module(x))


@pytest.mark.parametrize("name", ["fedmax", "moon", "activation_l2", "psi_net"])
def test_methods_on_the_last_layer_refuse_a_module_without_a_dense_one(name):
    with pytest.raises(UserError, match=f"algorithm {name}: model Recurrent: "):
        federated(Recurrent, algorithm={"name": name})


def test_dropout_by_hand():
    """Attention's weights too: dropout multiplies them by 0 or 1 / (1 - p), drawn before the
    step."""
    made = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)

    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.scores = made, nn.Linear(4, 3)

        def forward(self, x):
            return self.scores(
                F.dropout(self.attention(x[:, 0], x[:, 0], x[:, 0])[0], 0.25, self.training)[:, 0]
            )

    net = models.from_module(Attending(), (1, 3, 4), 3, rng.generator(0, "weights")).train()
    factors = dropout_masks(net, 5, rng.generator(0, "dropout"))
    assert [tuple(factor.shape) for factor in factors] == [(10, 3, 3), (5, 3, 4)]
    assert [factor.unique().tolist() for factor in factors] == [[0, 2], pytest.approx([0, 4 / 3])]
    x = torch.rand(5, 1, 3, 4, generator=rng.generator(0, "x"))
    q, k, v = (
        (F.linear(x[:, 0], made.in_proj_weight, made.in_proj_bias))
        .unflatten(2, (3, 2, 2))
        .permute(2, 0, 3, 1, 4)
    )
    weights = (q @ k.transpose(2, 3) / 2**0.5).softmax(3) * factors[0].unflatten(0, (5, 2))
    outputs = made.out_proj((weights @ v).transpose(1, 2).flatten(2)) * factors[1]
    torch.testing.assert_close(net(x, factors).logits, net.head(outputs[:, 0]))
