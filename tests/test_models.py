"""Sizes of the papers' networks, their initial weights, and that nothing but the given generator decides those."""

import math

import pytest
import torch
from conftest import advance, assert_close, config, federation
from torch import nn

from fedrepro import models, registry, rng
from fedrepro.config import Choice
from fedrepro.errors import UserError
from fedrepro.models.base import conv_pool

GREY, COLOUR = (1, 28, 28), (3, 32, 32)
PAPERS = [
    ("mnist_cnn", {"arch": "paper"}, GREY, 10, 1_663_370),
    ("mnist_cnn", {"arch": "code"}, GREY, 10, 3_274_634),
    ("mnist_cnn", {"arch": "fusion_code"}, GREY, 10, 1_630_602),
    ("cifar_cnn", {"arch": "paper"}, COLOUR, 10, 1_756_426),
    ("cifar_cnn", {"arch": "code"}, COLOUR, 10, 3_630_602),
    ("logistic", {}, GREY, 10, 7_850),
    ("pfl_cnn", {}, COLOUR, 10, 1_626_442),
    ("fedmax_cnn", {}, COLOUR, 10, 659_818),
    ("fedmax_cnn", {}, COLOUR, 100, 705_988),
    ("fedmax_cnn", {"last_padding": 0}, (1, 32, 32), 26, 438_074),
]


def build(name, shape, classes=10, seed=0, **options):
    return models.build(Choice(name=name, **options), shape, classes, rng.generator(seed, "weights"))


@pytest.mark.parametrize(("name", "options", "shape", "classes", "count"), PAPERS)
def test_number_of_weights(name, options, shape, classes, count):
    assert sum(tensor.numel() for tensor in build(name, shape, classes, **options).parameters()) == count


def test_fusion_maps():
    """What FedFusion fuses: 64 maps of 7x7 on MNIST, of 8x8 on CIFAR."""
    net = build("mnist_cnn", GREY, arch="fusion_code")
    assert net(torch.rand(2, *GREY)).maps.shape == (2, 64, 7, 7) and net.channels == 64
    assert [layer.kernel_size for layer in net.extractor if isinstance(layer, nn.Conv2d)] == [(5, 5), (3, 3)]
    assert build("cifar_cnn", COLOUR)(torch.rand(2, *COLOUR)).maps.shape == (2, 64, 8, 8)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 17, 23), (2, 40, 32)])
@pytest.mark.parametrize(
    ("name", "arch"), [(name, options["arch"]) for name, options, *_ in PAPERS if "arch" in options], ids=str
)
def test_shapes_of_outputs(name, arch, shape):
    net = build(name, shape, classes=7, arch=arch, width=0.05)
    logits, penultimate, maps = net(torch.rand(3, *shape))
    assert logits.shape == (3, 7) and penultimate.shape == (3, net.head.in_features)
    assert maps.dim() == 4 and maps.shape[1] == net.channels
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
    inits = {
        (name, options["arch"]): models.settings(Choice(name=name, **options)).init
        for name, options, *_ in PAPERS
        if "arch" in options
    }
    assert inits == {
        ("mnist_cnn", "paper"): "pytorch",
        ("mnist_cnn", "code"): "truncated_normal",
        ("mnist_cnn", "fusion_code"): "glorot",
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


def test_group_normalisation_of_several_channels_in_every_executor(monkeypatch):
    """The weights of a convolution lie with their channels last, and so do its maps: `vmap` cannot copy those as they lie."""

    def layers(params, shape):
        second = [nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()]
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), *second), [8]

    monkeypatch.setattr(registry.module("models", "mnist_cnn"), "layers", layers)
    one, other = (advance(federation(config(), executor=name), 1)[0].weights for name in ("sequential", "stacked"))
    assert_close(one, other, 1e-11)


# Dropout


def masks(net, images=400, seed=0, round=1):
    return models.dropout_masks(net, images, rng.generator(seed, "dropout", round))


def test_masks_keep_the_mean():
    one, two = masks(build("cifar_cnn", COLOUR, dropout=0.2))
    assert one.shape == (400, 384) and two.shape == (400, 192)
    for mask in (one, two):
        assert set(mask.unique().tolist()) == {0.0, 1.25}
        assert (mask == 0).double().mean().item() == pytest.approx(0.2, abs=0.01)  # 76,800 draws: four deviations are 0.006
    assert masks(build("logistic", GREY, dropout=0.2)) == ()
    assert all(mask.dtype == torch.float64 for mask in masks(build("cifar_cnn", COLOUR, dropout=0.2, width=0.1).double(), 3))


def test_masks_repeat_from_their_generator():
    net = build("mnist_cnn", GREY, dropout=0.5, width=0.1)
    assert torch.equal(*masks(net), *masks(net))
    assert not torch.equal(*masks(net), *masks(net, round=2)) and not torch.equal(*masks(net), *masks(net, seed=1))


def test_without_dropout_nothing_is_drawn():
    generator = rng.generator(0, "dropout")
    before = generator.get_state()
    assert models.dropout_masks(build("mnist_cnn", GREY), 8, generator) == ()
    assert torch.equal(generator.get_state(), before)


def test_masks_multiply_the_units_of_every_hidden_layer():
    net, x = build("cifar_cnn", COLOUR, dropout=0.4, width=0.1), torch.rand(5, *COLOUR)
    first, second = masks(net, 5)
    one, two = net.hidden[0], net.hidden[2]
    units = torch.relu(one(net.extractor(x).flatten(1))) * first
    units = torch.relu(two(units)) * second
    logits, penultimate, _ = net(x, (first, second))
    assert torch.equal(penultimate, units) and torch.equal(logits, net.head(units))
    assert ((penultimate == 0) >= (second == 0)).all()


def test_dropout_draws_nothing_by_itself_and_no_test_sees_it():
    with_it, without = (build("cifar_cnn", COLOUR, dropout=dropout, width=0.1) for dropout in (0.4, 0.0))
    x = torch.rand(5, *COLOUR)
    for mode in (True, False):
        assert torch.equal(with_it.train(mode)(x).logits, without.train(mode)(x).logits)


def test_unknown_names_and_options():
    valid = "cifar_cnn, fedmax_cnn, logistic, mnist_cnn, pfl_cnn"
    with pytest.raises(UserError, match=f"unknown model 'lenet': choose from {valid}$"):
        build("lenet", GREY)
    with pytest.raises(UserError, match=r"model mnist_cnn: depth: unknown key: choose from arch, dropout, init, width"):
        build("mnist_cnn", GREY, depth=3)
    with pytest.raises(UserError, match=r"model mnist_cnn: dropout: .*less than 1 \(got 1\)"):
        build("mnist_cnn", GREY, dropout=1)
    with pytest.raises(UserError, match=r"model mnist_cnn: width: .*greater than 0 \(got 0\)"):
        build("mnist_cnn", GREY, width=0)
