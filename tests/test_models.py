"""Sizes of the papers' networks, their initial weights, and that nothing but the given generator decides those."""

import math

import pytest
import torch
from torch import nn

from fedrepro import models, registry, rng
from fedrepro.config import Choice
from fedrepro.errors import UserError
from fedrepro.models.base import conv_pool

GREY, COLOUR = (1, 28, 28), (3, 32, 32)
PAPERS = [
    ("mnist_cnn", "paper", GREY, 1_663_370),
    ("mnist_cnn", "code", GREY, 3_274_634),
    ("cifar_cnn", "paper", COLOUR, 1_756_426),
    ("cifar_cnn", "code", COLOUR, 3_630_602),
]


def build(name, shape, classes=10, seed=0, **options):
    return models.build(Choice(name=name, **options), shape, classes, rng.generator(seed, "weights"))


@pytest.mark.parametrize(("name", "arch", "shape", "count"), PAPERS)
def test_number_of_weights(name, arch, shape, count):
    assert sum(tensor.numel() for tensor in build(name, shape, arch=arch).parameters()) == count


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 17, 23), (2, 40, 32)])
@pytest.mark.parametrize("arch", ["paper", "code"])
@pytest.mark.parametrize("name", ["mnist_cnn", "cifar_cnn"])
def test_shapes_of_outputs(name, arch, shape):
    net = build(name, shape, classes=7, arch=arch, width=0.05)
    logits, penultimate, maps = net(torch.rand(3, *shape))
    assert logits.shape == (3, 7) and penultimate.shape == (3, net.head.in_features) and maps.dim() == 4
    assert torch.equal(net.head(penultimate), logits) and torch.equal(net.hidden(maps.flatten(1)), penultimate)
    assert (penultimate >= 0).all() and (maps >= 0).all()


def test_width_scales_every_layer_but_the_classes():
    shapes = [
        tuple(tensor.shape) for name, tensor in build("mnist_cnn", GREY, width=0.25).named_parameters() if "weight" in name
    ]
    assert shapes == [(8, 1, 5, 5), (16, 8, 5, 5), (128, 784), (10, 128)]
    assert build("mnist_cnn", GREY, width=1e-9).head.in_features == 1


def test_too_small_images():
    for name, shape, options in (("mnist_cnn", (1, 3, 3), {}), ("cifar_cnn", (3, 8, 8), {"arch": "code"})):
        with pytest.raises(UserError, match=f"model {name}: images of {shape[1]}x{shape[2]} are too small"):
            build(name, shape, **options)


def test_pooling_before_relu_is_pooling_after_relu():
    pool = nn.MaxPool2d(3, 2, padding=1)
    ours = nn.Sequential(*conv_pool(2, 4, 5, pool))
    x = torch.randn(5, 2, 9, 9)
    textbook = pool(torch.relu(ours[0](x)))
    assert torch.equal(ours(x), textbook) and (textbook == 0).any() and (textbook > 0).any()


@pytest.mark.parametrize("init", ["pytorch", "glorot", "truncated_normal"])
@pytest.mark.parametrize("name", registry.names("models"))
def test_the_generator_alone_decides(name, init):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one = build(name, COLOUR, width=0.05, init=init).state_dict()
    torch.manual_seed(8)
    again, other = (build(name, COLOUR, width=0.05, init=init, seed=seed).state_dict() for seed in (0, 1))
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)
    torch.manual_seed(7)
    build(name, COLOUR, width=0.05, init=init)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_weights():
    def large(options):
        return build("mnist_cnn", GREY, **options).hidden[0]

    bound = 1 / math.sqrt(3136)
    layer = large({})
    assert layer.weight.abs().max() <= bound and layer.bias.abs().max() <= bound and layer.bias.std() > bound / 3
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)

    layer = large({"init": "glorot"})
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (3136 + 512)), rel=0.01) and (layer.bias == 0).all()

    layer = large({"arch": "code"})  # comes with truncated normal weights
    assert layer.weight.abs().max() <= 0.2 and layer.weight.mean().abs() < 1e-3
    assert layer.weight.std().item() == pytest.approx(0.08796, rel=0.01)  # of N(0, 0.1) cut at two deviations
    assert (layer.bias == 0.1).all()


def test_what_an_architecture_comes_with_is_written_out():
    inits = {(name, arch): models.settings(Choice(name=name, arch=arch)).init for name, arch, *_ in PAPERS}
    assert inits == {
        ("mnist_cnn", "paper"): "pytorch",
        ("mnist_cnn", "code"): "truncated_normal",
        ("cifar_cnn", "paper"): "pytorch",
        ("cifar_cnn", "code"): "glorot",
    }
    assert models.settings(Choice(name="mnist_cnn", arch="code")).model_dump()["init"] == "truncated_normal"


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(4), nn.GroupNorm(2, 4)], ids=["batch", "group"])
def test_other_layers_start_from_known_weights(norm, monkeypatch):
    """A network may hold layers with weights beside convolutions and dense ones."""
    module = registry.module("models", "mnist_cnn")

    def layers(params, shape):
        return nn.Sequential(nn.Conv2d(1, 4, 5), type(norm)(*([4] if isinstance(norm, nn.BatchNorm2d) else [2, 4]))), [8]

    monkeypatch.setattr(module, "layers", layers)
    built = build("mnist_cnn", GREY).extractor[1].state_dict()
    assert all(torch.equal(built[key], tensor) for key, tensor in norm.state_dict().items())


def test_unknown_names_and_options():
    with pytest.raises(UserError, match=r"unknown model 'lenet': choose from cifar_cnn, mnist_cnn"):
        build("lenet", GREY)
    with pytest.raises(UserError, match=r"model mnist_cnn: depth: unknown key: choose from arch, init, width"):
        build("mnist_cnn", GREY, depth=3)
    with pytest.raises(UserError, match=r"model mnist_cnn: width: .*greater than 0 \(got 0\)"):
        build("mnist_cnn", GREY, width=0)
