"""Sizes of the papers' networks, blocks and what they are made of, initial weights, masks of
dropout, and every model in every executor."""

import hashlib
import math
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
import torch
import torchvision
from torch import nn
from torch.func import functional_call, vmap

from fedrepro import algorithms, models
from fedrepro.config import registry
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Conv, Dense, GroupedLinear, Head, resnet50, tasks
from fedrepro.models.base import Network
from fedrepro.training.executors import EXECUTORS
from support.federation import advance, assert_close, config, federation, images, normal, uniform
from support.networks import COLOUR, GREY, assembled, build

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
    ("fedmax_cnn", {"width": 0.5, "hidden": 1024}, COLOUR, 10, 300_474),
    ("vgg9", {}, COLOUR, 10, 3_491_530),
    ("vgg16", {}, COLOUR, 10, 14_728_266),
    ("mobilenet", {}, COLOUR, 10, 3_217_226),
    ("mlp", {}, (1, 32, 32), 10, 529_930),
    ("resnet50", {}, (3, 64, 64), 1000, 25_557_032),
    ("resnet50", {}, (3, 64, 64), 1, 23_510_081),  # regression
]


@pytest.mark.parametrize(("name", "options", "shape", "classes", "count"), PAPERS)
def test_number_of_weights(name, options, shape, classes, count):
    assert (
        sum(tensor.numel() for tensor in build(name, shape, classes, **options).parameters())
        == count
    )


MAPS = [  # the sides of each convolution's maps; kernel, stride and padding of what pools them
    ("mnist_cnn", {"arch": "paper"}, GREY, [14, 7], (2, 2, 0)),
    ("mnist_cnn", {"arch": "code"}, GREY, [14, 7], (2, 2, 0)),
    ("mnist_cnn", {"arch": "fusion_code"}, GREY, [14, 7], (3, 2, 1)),
    ("cifar_cnn", {"arch": "paper"}, COLOUR, [16, 8], (3, 2, 1)),
    ("cifar_cnn", {"arch": "code"}, COLOUR, [15, 7, 7, 7, 3], (3, 2, 0)),
    ("pfl_cnn", {}, COLOUR, [30, 14], (2, 2, 0)),
    ("fedmax_cnn", {}, COLOUR, [16, 16, 8, 8, 4], (2, 2, 0)),
    ("vgg9", {}, COLOUR, [32, 16, 16, 8, 8, 4], (2, 2, 0)),
    ("vgg16", {}, COLOUR, [32, 16, 16, 8, 8, 8, 4, 4, 4, 2, 2, 2, 1], (2, 2, 0)),
    ("mobilenet", {}, COLOUR, [32] * 3 + [16] * 4 + [8] * 4 + [4] * 12 + [2] * 3 + [1], None),
]


@pytest.mark.parametrize(
    ("name", "options", "shape", "sides", "pooling"),
    MAPS,
    ids=[f"{m[0]}{m[1] or ''}" for m in MAPS],
)
def test_shapes_where_networks_narrow(name, options, shape, sides, pooling):
    """The number of weights does not show them."""
    net = build(name, shape, **options)
    assert [layers.shape[1] for layers in net.extractor] == sides
    pools = {
        (part.kernel_size, part.stride, part.padding)
        for part in net.modules()
        if isinstance(part, nn.MaxPool2d)
    }
    assert pools == ({pooling} if pooling else set())


def test_what_vgg9_drops():
    blocks = {name: block for name, block in build("vgg9", COLOUR).blocks.items() if name != "head"}
    found = {
        name: (block.dropout, block.channelwise) for name, block in blocks.items() if block.dropout
    }
    assert found == {"conv4": (0.05, True), "conv6": (0.1, False), "fc2": (0.1, False)}


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 17, 23), (2, 40, 32)])
@pytest.mark.parametrize(
    ("name", "arch"),
    [(name, options["arch"]) for name, options, *_ in PAPERS if "arch" in options],
    ids=str,
)
def test_shapes_of_outputs(name, arch, shape):
    net = build(name, shape, classes=7, arch=arch, width=0.05)
    logits, penultimate, maps, _ = net(uniform(3, *shape))
    assert logits.shape == (3, 7) and penultimate.shape == (3, net.head.in_features)
    assert maps.dim() == 4 and maps.shape[1] == net.channels
    assert torch.equal(net.head(penultimate), logits) and torch.equal(
        net.hidden(maps.flatten(1)), penultimate
    )
    assert (penultimate >= 0).all() and (maps >= 0).all()


@pytest.mark.parametrize(("name", "options", "size"), [
    ("mlp", {"width": 1e30}, r"5.12e\+32"),
    ("fedmax_cnn", {"hidden": 10**18}, r"1e\+18"),
    ("cifar_cnn", {"width": 100}, "1,024,006,400"),
])  # fmt: skip
def test_a_network_that_fits_into_no_memory_is_refused(name, options, size):
    with pytest.raises(UserError, match=f"model.*: {size} |model.* {size} "):
        build(name, COLOUR, **options)


def test_width_scales_every_layer_but_the_classes():
    shapes = [
        tuple(tensor.shape)
        for name, tensor in build("mnist_cnn", GREY, width=0.25).named_parameters()
        if "weight" in name
    ]
    assert shapes == [(8, 1, 5, 5), (16, 8, 5, 5), (128, 784), (10, 128)]
    assert build("mnist_cnn", GREY, width=1e-9).head.in_features == 1


def test_pooling_before_relu_is_pooling_after_relu():
    pool = nn.MaxPool2d(3, 2, padding=1)
    ours = Conv("conv1", 4, 5, pool).layers((2, 9, 9))
    assert list(ours) == ["layer", "pool", "activation"]
    x = normal(5, 2, 9, 9)
    textbook = pool(torch.relu(ours["layer"](x)))
    assert (
        torch.equal(nn.Sequential(*ours.values())(x), textbook)
        and (textbook == 0).any()
        and (textbook > 0).any()
    )


@pytest.mark.parametrize("init", ["pytorch", "glorot", "truncated_normal"])
@pytest.mark.parametrize("name", registry.names("models"))
def test_the_generator_alone_decides(name, init):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one = build(name, COLOUR, width=0.05, init=init).state_dict()
    torch.manual_seed(8)
    again, other = (
        build(name, COLOUR, width=0.05, init=init, seed=seed).state_dict() for seed in (0, 1)
    )
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)
    torch.manual_seed(7)
    build(name, COLOUR, width=0.05, init=init)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_weights():
    def large(options):
        return build("mnist_cnn", GREY, **options).blocks["fc1"].layer

    bound = 1 / math.sqrt(3136)
    layer = large({})
    assert (
        layer.weight.abs().max() <= bound
        and layer.bias.abs().max() <= bound
        and layer.bias.std() > bound / 3
    )
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)

    layer = large({"init": "glorot"})
    assert (
        layer.weight.std().item() == pytest.approx(math.sqrt(2 / (3136 + 512)), rel=0.01)
        and (layer.bias == 0).all()
    )

    layer = large({"arch": "code"})  # comes with truncated normal weights
    assert layer.weight.abs().max() <= 0.2 and layer.weight.mean().abs() < 1e-3
    # of N(0, 0.1) cut at two deviations
    assert layer.weight.std().item() == pytest.approx(0.08796, rel=0.01)
    assert (layer.bias == 0.1).all()


# Dropout


def masks(net, images=400, seed=0, round=1):
    return models.dropout_masks(net, images, rng.generator(seed, "dropout", round))


def test_masks_multiply_the_units_of_every_hidden_layer():
    net, x = build("cifar_cnn", COLOUR, dropout=0.4, width=0.1), uniform(5, *COLOUR)
    first, second = masks(net, 5)
    one, two = net.blocks["fc1"].layer, net.blocks["fc2"].layer
    units = torch.relu(one(net.extractor(x).flatten(1))) * first
    units = torch.relu(two(units)) * second
    logits, penultimate, *_ = net(x, (first, second))
    assert torch.equal(penultimate, units) and torch.equal(logits, net.head(units))
    assert ((penultimate == 0) >= (second == 0)).all()


def test_masks_of_every_kind():
    """Of numbers and of whole maps, after convolutions and after grouped dense layers, each with
    its own probability."""
    blocks = [
        Conv("conv1", 40, 3, dropout=0.2, channelwise=True),
        Conv("conv2", 4, 3, nn.MaxPool2d(2), dropout=0.5),
        Dense("fc1", 60, groups=4),
        Dense("fc2", 60, groups=4, dropout=0.1),
        Head(8, groups=4),
    ]
    net = assembled(blocks)
    drawn = masks(net)
    assert [tuple(mask.shape) for mask in drawn] == [(400, 40, 1, 1), (400, 4, 4, 4), (400, 60)]
    for mask, dropped in zip(drawn, (0.2, 0.5, 0.1), strict=True):
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - dropped)])
        # 16,000 draws or more: 4 deviations
        assert (mask == 0).double().mean().item() == pytest.approx(dropped, abs=0.02)
    x = uniform(400, 2, 8, 8)
    found = net(x, drawn).blocks
    for name, mask in zip(("conv1", "conv2", "fc2"), drawn, strict=True):
        assert (found[name][mask.expand_as(found[name]) == 0] == 0).all()
    clean = net.blocks["conv1"](x)
    assert torch.equal(found["conv1"], clean * drawn[0]) and torch.equal(
        found["fc1"], net.hidden.fc1(found["conv2"].flatten(1))
    )


# Blocks


class Added(nn.Module):
    """A residual connection around a depthwise convolution and a pointwise one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm, self.point = nn.GroupNorm(2, channels), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return x + self.point(torch.relu(self.norm(self.depth(x))))


@dataclass(frozen=True)
class Residual(Block):
    def layers(self, shape):
        return {"added": Added(shape[0])}


class Made(Network):
    def blocks(self, outputs):
        """All that a block can be, in one small network."""
        return [
            self.conv("conv1", 3, 3, nn.MaxPool2d(2), norm="batch", bias=False),
            self.conv("conv2", 4, 3, norm="group", norm_groups=2, dropout=0.3, channelwise=True),
            self.conv(
                "conv3",
                5,
                3,
                nn.AvgPool2d(2),
                norm="group",
                groups=2,
                dropout=0.2,
                activation=nn.Tanh,
            ),
            Residual("res", dropout=0.1),
            self.dense("fc1", 9, groups=2, dropout=0.4),
            self.dense("fc2", 8, groups=2),
            Head(outputs, groups=2),
        ]


@pytest.fixture(autouse=True)
def made_is_a_model(monkeypatch):
    """Named `made`, as if its file lay beside the others."""
    known = registry.find

    def find(kind, name):
        return Made if (kind, name) == ("models", "made") else known(kind, name)

    monkeypatch.setattr(registry, "find", find)


def fusing(net):
    """The network that FedFusion makes of one."""
    task = tasks.create(Choice(name="classification"), 10)
    return algorithms.create(Choice(name="fedfusion"), net, rng.generator(0, "algorithm"), task).net


def test_groups_share_nothing():
    """A grouped dense layer is a grouped 1x1 convolution, and a decoupled network as many
    networks."""
    layer, x = GroupedLinear(6, 9, 3), uniform(5, 6)
    models.initialise(layer, "pytorch", rng.generator(0, "weights"))
    convolved = nn.functional.conv2d(
        x[:, :, None, None], layer.weight[:, :, None, None], layer.bias, groups=3
    ).flatten(1)
    assert torch.allclose(layer(x), convolved, atol=1e-6)
    net = assembled(
        [Conv("conv1", 4, 3, groups=2, norm="group"), Dense("fc1", 6, groups=2), Head(4, groups=2)]
    ).double()
    x = uniform(3, 2, 8, 8, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x).logits[:, :2].sum(), x)
    assert (slope[:, 0] != 0).any() and (slope[:, 1] == 0).all()


def test_widths_that_groups_can_share():
    assert [models.multiple(width, 10) for width in (128, 256, 512, 3)] == [130, 260, 510, 10]
    assert models.multiple(512, 100) == 500 and models.multiple(0.2) == 1
    params = Network(width=0.5, norm="group", norm_groups=4)
    assert params.conv("conv4", 64, 3, groups=10).filters == 40  # a multiple of 4 and 10
    assert params.conv("conv5", 64, 3, groups=10, norm="none").filters == 30
    assert params.dense("fc1", 512, groups=10).units == 260


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([Conv("conv1", 4, 3), Conv("conv2", 4, 3, groups=3), Head(2)], "conv2: "),
        ([Conv("conv1", 4, 3, norm="group", norm_groups=3), Head(2)], "conv1: "),
        ([Dense("fc1", 4, groups=3), Head(2)], "fc1: "),
        ([Dense("fc1", 4), Head(10, groups=4)], "head: "),
        ([Conv("conv1", 4, 9, padding=0), Head(2)], "images of 8x8"),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_what_cannot_be_assembled(blocks, message):
    with pytest.raises(UserError, match=f"model of blocks: {message}"):
        assembled(blocks)


def test_each_group_starts_as_a_layer_of_its_own():
    """Glorot's bound counts the units of a group."""
    layer = assembled([Dense("fc1", 400, groups=4), Head(2)], init="glorot").hidden.fc1.layer
    bound = math.sqrt(6 / (32 + 100))
    assert 0.99 * bound < layer.weight.abs().max().item() <= bound and (layer.bias == 0).all()


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (
            ["conv1"],
            {"conv1.layer.weight", "conv1.layer.bias", "conv1.norm.weight", "conv1.norm.bias"},
        ),
        (
            ["*.norm"],
            {f"conv{number}.norm.{kind}" for number in (1, 2) for kind in ("weight", "bias")},
        ),
        (["fc1.layer.bias", "head"], {"fc1.layer.bias", "head.weight", "head.bias"}),
    ],
    ids=["block", "layer", "weight"],
)
def test_frozen_weights(patterns, kept):
    net = build("mnist_cnn", GREY, width=0.1, norm="group", frozen=patterns)
    everything = [name for name, _ in net.named_parameters()]
    assert build("mnist_cnn", GREY, width=0.1, norm="group").trained == tuple(everything)
    assert {
        name.removeprefix("extractor.").removeprefix("hidden.")
        for name in set(everything) - set(net.trained)
    } == kept
    fused = fusing(net)
    assert set(fused.trained) == {
        *net.trained,
        "fusion.convolution.weight",
        "fusion.convolution.bias",
    }


# ResNet50


def theirs():
    """It draws from torch's own generator, which is as it was afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torchvision.models.resnet50()


def test_resnet50_is_torchvisions():
    """The same weights give the same features, in training and in testing; all by torchvision's
    names."""
    own, other, x = build("resnet50", (3, 64, 64), 1000), theirs(), uniform(2, 3, 64, 64)
    resnet50.copy_weights(own, other.state_dict())
    other.fc = nn.Identity()
    for mode in (False, True):
        with torch.no_grad():
            found = own.train(mode)(x)
            assert torch.allclose(found.penultimate, other.train(mode)(x), atol=1e-5)
        assert found.penultimate.shape == (2, 2048) and found.maps.shape == (2, 2048, 1, 1)
    names = {name.removeprefix("extractor.").removeprefix("stem.") for name in own.state_dict()}
    assert names == {*other.state_dict(), "head.weight", "head.bias"}


def test_its_normalisations_are_frozen_unless_the_user_says_otherwise():
    net = build("resnet50", COLOUR, width=0.05, stages=[1, 2, 1, 1])
    kept = {name for name, _ in net.named_parameters()} - set(net.trained)
    norms = {name for name, part in net.named_modules() if isinstance(part, nn.BatchNorm2d)}
    assert (
        kept == {f"{name}.{end}" for name in norms for end in ("weight", "bias")}
        and len(norms) == 1 + 4 * 4 + 3
    )
    assert len(build("resnet50", COLOUR, width=0.05, frozen=[]).trained) == 161


def release(monkeypatch, weights):
    """As if torchvision's server gave these weights."""
    monkeypatch.setattr(resnet50, "load_imagenet_weights", lambda: weights)


@pytest.mark.parametrize("counters", [True, False])
def test_imagenet_weights(counters, monkeypatch):
    """The released file is older than the counters of batches."""
    weights = {
        name: tensor
        for name, tensor in theirs().state_dict().items()
        if counters or "num_batches" not in name
    }
    release(monkeypatch, weights)
    net = build("resnet50", (3, 64, 64), pretrained=True)
    drawn = build("resnet50", (3, 64, 64))
    for name in net.state_dict():
        if name.startswith("head"):
            assert torch.equal(net.state_dict()[name], drawn.state_dict()[name])
        else:
            found = weights.get(
                name.removeprefix("extractor.").removeprefix("stem."), torch.tensor(0)
            )
            assert torch.equal(net.state_dict()[name], found), name
    grey, x = (
        build("resnet50", (1, 64, 64), pretrained=True).double().eval(),
        uniform(2, 1, 64, 64).double(),
    )
    # in double precision: its weights are sums of three, and fifty layers add up what single rounds
    with torch.no_grad():
        torch.testing.assert_close(
            grey(x).penultimate, net.double().eval()(x.expand(2, 3, 64, 64)).penultimate
        )


def test_imagenet_weights_that_do_not_fit(monkeypatch):
    weights = theirs().state_dict()
    for change, words in (
        ({"layer1.0.conv1.weight": torch.zeros(2, 2)}, "layer1.0.conv1.weight"),
        ({"bn1.running_mean": None}, "stem.bn1.running_mean"),
    ):
        release(
            monkeypatch,
            {name: tensor for name, tensor in (weights | change).items() if tensor is not None},
        )
        with pytest.raises(UserError, match=f"model resnet50: pretrained: {words} .*http"):
            build("resnet50", (3, 64, 64), pretrained=True)


class Executes:
    """Makes a folder where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def cached(tmp_path, monkeypatch) -> Path:
    """Where torch's cache has the file of the ImageNet weights."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    path = tmp_path / "hub" / "checkpoints" / resnet50.imagenet_weights().url.rpartition("/")[2]
    path.parent.mkdir(parents=True)
    return path


def test_a_cached_file_is_read_only_if_it_is_the_release(cached, monkeypatch):
    torch.save({"conv1.weight": Executes(cached.with_name("executed"))}, cached)
    with pytest.raises(UserError, match=f"{cached}: .*0676ba61"):
        resnet50.load_imagenet_weights()
    monkeypatch.setattr(resnet50, "SHA256", hashlib.sha256(cached.read_bytes()).hexdigest())
    with pytest.raises(pickle.UnpicklingError):
        resnet50.load_imagenet_weights()
    assert not cached.with_name("executed").exists()


@pytest.mark.parametrize(("options", "key"), [
    ({"pretrained": True, "width": 0.5}, "pretrained"),
    ({"pretrained": True, "stages": [1, 1, 1, 1]}, "pretrained"),
    ({"norm": "group"}, "norm"),
    ({"stages": [3, 4, 6]}, "stages"),
])  # fmt: skip
def test_options_that_resnet50_does_not_have(options, key):
    with pytest.raises(UserError, match=f"model resnet50: {key}"):
        build("resnet50", COLOUR, **options)


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_batch_of_one_image_has_no_variance(executor):
    """Nine images a client in batches of 4, so that the last holds one; a map of many pixels still
    has a variance."""
    alone = {
        "partition": {"name": "iid", "clients": 2},
        "clients_per_round": 2,
        "batch_size": 4,
        "rounds": 1,
    }
    advance(
        federation(
            config(**alone, model={"name": "mnist_cnn", "width": 0.05, "norm": "batch"}),
            images(18),
            executor,
        )
    )
    deep = federation(
        config(**alone, model={"name": "mobilenet", "width": 0.05}),
        images(18, shape=(1, 16, 16)),
        executor,
    )
    with pytest.raises(UserError, match="batch_size: "):
        advance(deep)


# Every model in every executor

SHAPE = (1, 16, 16)
SMALL = {"partition": {"clients": 3}, "batch_size": 5, "rounds": 2, "local_epochs": 1, "lr": 0.05}


# the deepest: a step of it takes seconds to record
SHALLOW = {"resnet50": {"stages": [1, 1, 1, 1]}}
GENTLE = {"resnet50": {"lr": 1e-4}}  # its many normalisations of nine images blow rounding up


def architectures(name):
    """The options of all architectures that a model has."""
    field = registry.find("models", name).model_fields.get("arch")
    return (
        [{"arch": arch} for arch in get_args(field.annotation)]
        if field
        else [SHALLOW.get(name, {})]
    )


MODELS = [
    (name, options) for name in registry.names("models") for options in architectures(name)
] + [("made", {})]
# Batch normalisation of maps of 1x1 over three images lets rounding grow a million times; to record
# so much takes seconds.
DEEP = dict.fromkeys(("mobilenet", "vgg16", "resnet50"), {"rounds": 1, "batch_size": 9})
CASES = [
    *(
        (name, options | {"width": 0.05 if name != "made" else 1.0, "dropout": 0.3}, "fedavg")
        for name, options in MODELS
    ),
    ("mnist_cnn", {"width": 0.1, "norm": "batch"}, "fedavg"),
    (
        "mnist_cnn",
        {"width": 0.1, "norm": "group", "norm_groups": 2, "frozen": ["conv1"]},
        "fedprox",
    ),
    ("made", {}, "fedfusion"),
]


@pytest.mark.parametrize(("name", "options", "method"), CASES, ids=str)
def test_executors_agree_and_nobody_else_is_asked_to_draw(name, options, method):
    """Two rounds over clients with 9, 9 and 8 images; masks come from the run's own generators
    alone."""
    own = DEEP.get(name, {}) | GENTLE.get(name, {})
    settings = config(algorithm={"name": method}, model={"name": name, **options}, **SMALL | own)
    count = 27 if name in DEEP else 26
    before = torch.get_rng_state()
    # to record a step takes seconds
    executors = EXECUTORS if name in ("made", "mnist_cnn") else ("stacked", "plain")
    feds = [federation(settings, images(count, 6, SHAPE), executor) for executor in executors]
    one, *others = (advance(fed)[0] for fed in feds)
    assert torch.equal(torch.get_rng_state(), before)
    for other in others:
        assert_close(one.weights, other.weights, 1e-11)
        assert_close(one.server, other.server, 1e-11)
    start, trained = feds[0].start()[0].weights, feds[0].algorithm.net.trained
    change = {
        key: (one.weights[key] - start[key]).abs().max()
        for key, _ in feds[0].algorithm.net.named_parameters()
    }
    # the clients' mean rounds
    assert {"head.weight"} <= {key for key in change if change[key] > 1e-14} <= set(trained)


@pytest.mark.parametrize(("name", "options"), MODELS, ids=str)
def test_outputs_of_blocks(name, options):
    """By name, alone and for several clients at once, as a method sees them; tests drop nothing."""
    options = options | {"width": 0.05 if name != "made" else 1.0}
    net, plain = (
        build(name, SHAPE, dropout=dropout, **options).double().eval() for dropout in (0.3, 0.0)
    )
    x = uniform(3, *SHAPE, dtype=torch.float64)
    logits, penultimate, maps, blocks = net(x)
    assert list(blocks) == list(net.blocks) and blocks["head"] is logits
    inner = {key: layers for key, layers in net.blocks.items() if key != "head"}
    assert {key: tuple(blocks[key].shape) for key in inner} == {
        key: (3, *layers.shape) for key, layers in inner.items()
    }
    assert torch.equal(logits, plain(x).logits) and torch.equal(logits, net.head(penultimate))
    assert maps.shape[1] == net.channels and net.dropout == bool(masks(net, 1))
    weights = {key: torch.stack([tensor, tensor]) for key, tensor in net.state_dict().items()}
    both = vmap(lambda weights, x: functional_call(net, weights, (x,)).blocks)(
        weights, torch.stack([x, x.flip(0)])
    )
    for key in blocks:
        assert torch.allclose(both[key][0], blocks[key], atol=1e-12) and torch.allclose(
            both[key][1].flip(0), blocks[key], atol=1e-12
        )
