"""Networks in groups, and Psi-Net's averaging of them."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from fedrepro import algorithms, models
from fedrepro.algorithms.base import Batch, Client, ClientUpdate
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Conv, Dense, Depthwise, Head, Outputs, tasks
from fedrepro.training.round import RoundExecution
from support.federation import advance, assert_close, config, federation, images, local, receive
from support.networks import COLOUR, assembled, build


def psi(net, **options):
    """The method around a network."""
    task = tasks.create(Choice(name="classification"), net.head.out_features)
    return algorithms.create(
        Choice(name="psi_net", **options), net, rng.generator(0, "algorithm"), task
    )


def regulated(net, **options):
    return models.with_groups(net, rng.generator(0, "algorithm"), **options)


# The network


def test_vgg9_in_ten_groups():
    """Widths are rounded to what ten groups can share; each group has its own slice, up to the
    scores of its class."""
    net = regulated(build("vgg9", COLOUR), start="conv5")
    widths = {
        name: layers.layer.weight.shape[0] for name, layers in net.blocks.items() if name != "head"
    }
    assert widths == {
        "conv1": 32,
        "conv2": 64,
        "conv3": 128,
        "conv4": 130,
        "conv5": 260,
        "conv6": 260,
        "fc1": 510,
        "fc2": 510,
    }
    assert [
        net.blocks[name].layer.groups for name in ("conv4", "conv5", "conv6", "fc1", "fc2")
    ] == [1, 10, 10, 10, 10]
    assert net.blocks["conv5"].norm.num_groups == 10 and not hasattr(net.blocks["conv4"], "norm")
    assert net.blocks["fc1"].layer.weight.shape == (510, 416) and net.head.weight.shape == (10, 51)
    shared = [32 * 27 + 32, 64 * 288 + 64, 128 * 576 + 128, 130 * 1152 + 130]
    grouped = [
        260 * 13 * 9 + 3 * 260,
        260 * 26 * 9 + 3 * 260,
        510 * 416 + 510,
        510 * 51 + 510,
        10 * 51 + 10,
    ]
    assert sum(tensor.numel() for tensor in net.parameters()) == sum(shared + grouped)


@pytest.mark.parametrize(
    ("name", "start", "groups"),
    [
        ("vgg9", "conv3", 5),
        ("vgg16", "conv4_2", 10),
        ("mobilenet", "conv9_depth", 10),
        ("mobilenet", "conv9_point", 10),
        ("cifar_cnn", None, 2),
        ("logistic", None, 2),
    ],
    ids=str,
)
def test_scores_of_a_group_see_no_weight_of_another(name, start, groups):
    """The slope of a group's scores is zero on every other group's weights, and not on its own."""
    base = build(name, (4, 32, 32), **({"width": 0.1} if name != "logistic" else {}))
    net = regulated(base, groups=groups, start=start, classes="interleaved").double()
    logits = net(
        torch.rand(2, 4, 32, 32, generator=rng.generator(0, "x"), dtype=torch.float64)
    ).logits
    names = [key for key, _ in net.named_parameters() if key in net.groups.weights]
    for group, classes in enumerate(net.groups.classes):
        slopes = torch.autograd.grad(
            logits[:, list(classes)].square().sum(),
            [net.get_parameter(key) for key in names],
            retain_graph=True,
        )
        for key, slope in zip(names, slopes, strict=True):
            reached = net.groups.split(slope).flatten(1).abs().sum(1) > 0
            assert reached.nonzero().flatten().tolist() in ([group], []), key
        assert all((net.groups.split(slope)[group] != 0).any() for slope in slopes[-2:])
    assert {"head.weight", "head.bias"} <= set(names)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ("consecutive", ((0, 1), (2, 3), (4, 5))),
        ("interleaved", ((0, 3), (1, 4), (2, 5))),
        (((5, 0), (1, 3), (4, 2)), ((5, 0), (1, 3), (4, 2))),
    ],
)
def test_maps_of_classes(classes, expected):
    """The scores are in the order of the classes, not of the groups."""
    net = regulated(
        assembled([Dense("fc1", 6), Head(6)], shape=(6, 1, 1)), groups=3, classes=classes
    )
    assert net.groups.classes == expected and len(net.groups) == 3
    x = torch.rand(4, 6, 1, 1, generator=rng.generator(0, "x"))
    units = net(x).penultimate
    for group, labels in enumerate(expected):
        rows = slice(2 * group, 2 * group + 2)
        alone = units[:, rows] @ net.head.weight[rows].T + net.head.bias[rows]
        assert torch.allclose(net(x).logits[:, list(labels)], alone, atol=1e-6)
    counts = torch.zeros(6, dtype=torch.long)
    counts[5] = 3
    held = net.groups.present(counts)
    assert held.tolist() == [5 in labels for labels in expected]
    assert net.groups.expand_to_classes(held).nonzero().flatten().tolist() == sorted(
        expected[held.tolist().index(True)]
    )


def test_a_depthwise_convolution_is_as_wide_as_what_comes_before():
    blocks = [
        Conv("conv1", 7, 1),
        Depthwise("depth", 3, norm="batch"),
        Conv("point", 7, 1),
        Head(3),
    ]
    net = regulated(assembled(blocks), start="depth")
    assert [net.blocks[name].layer.weight.shape for name in ("conv1", "depth", "point")] == [
        (6, 2, 1, 1),
        (6, 1, 3, 3),
        (6, 2, 1, 1),
    ]
    assert net.blocks["depth"].norm.num_groups == 3
    later = regulated(assembled(blocks), start="point")
    assert [later.blocks[name].layer.weight.shape[0] for name in ("conv1", "depth")] == [6, 6]


class Odd(Block):
    def layers(self, shape):
        return {"layer": torch.nn.Conv2d(shape[0], 4, 1)}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"groups": 4}, "groups"),
        ({"grouped_from": "conv9"}, "grouped_from"),
        ({"grouped_from": "odd"}, "grouped_from"),
        ({"classes": ((0, 1), (1, 2))}, "classes"),
        ({"classes": (tuple(range(5)), tuple(range(5, 10))), "groups": 5}, "groups"),
        ({"groups": 0}, "groups"),
        *(({"classes": wrong}, "classes") for wrong in ("alternating", [1, 2], [], [[0, "a"]])),
    ],
    ids=str,
)
def test_what_cannot_be_split(options, key):
    with pytest.raises(UserError, match=f"algorithm psi_net: {key}: "):
        psi(assembled([Odd("odd"), Conv("conv1", 4, 3), Dense("fc1", 8), Head(10)]), **options)


def test_groups_that_do_not_divide_a_network():
    """Colours among ten groups, or pixels; and groups of its own that a network's normalisation
    would mix."""
    colours = assembled([Conv("conv1", 10, 3), Conv("conv2", 10, 3), Head(10)])
    with pytest.raises(UserError, match="conv1.*conv2, head$"):
        psi(colours, grouped_from="conv1")
    with pytest.raises(UserError, match="head: 784 "):
        psi(build("logistic", (1, 28, 28)))
    mixing = assembled(
        [Conv("conv1", 10, 3), Conv("conv2", 10, 3, norm="group", norm_groups=1), Head(10)]
    )
    with pytest.raises(UserError, match="conv2.* head$"):
        psi(mixing, grouped_from="conv2", norm="model")
    assert psi(mixing, grouped_from="conv2").net.groups


def test_classes_need_scores():
    task = tasks.create(Choice(name="regression"), 5)
    with pytest.raises(UserError, match="^algorithm psi_net: "):
        algorithms.create(
            Choice(name="psi_net"), assembled([Head(1)]), rng.generator(0, "algorithm"), task
        )


# The averaging

TWO_CLASSES = {"name": "balanced_classes", "clients": 5, "classes_per_client": 2}
CLASSES = {"partition": TWO_CLASSES, "clients_per_round": 5, "local_epochs": 1}


def test_a_mean_of_equal_groups_does_not_drift():
    """Ten clients that send what they received, in float64: some of them hold each group. Shares
    that add up in float32 are off by 1e-8 a round."""
    net = assembled([Conv("conv1", 3, 1), Head(3)], shape=(3, 1, 1)).double()
    algorithm = psi(net, grouped_from="conv1")
    like = weights = {key: tensor.clone() for key, tensor in algorithm.net.state_dict().items()}
    held = [torch.tensor([client % 2, client % 3, 1]) for client in range(10)]
    clients = [SimpleNamespace(classes=lambda counts=counts: counts) for counts in held]
    for _ in range(20):
        sent = [
            ClientUpdate(client, 0.1, algorithm.finish(weights, weights, client).message)
            for client in clients
        ]
        weights = algorithm.average(weights, sent)
    assert_close(weights, like, 1e-13)


@pytest.mark.parametrize("options", [{}, {"softmax": "all"}], ids=str)
def test_what_a_trimmed_client_trains_and_sends(options):
    """Without weight decay its trimmed groups do not move where the softmax leaves their classes
    out."""
    fed = federation(config(algorithm={"name": "psi_net", **options}, momentum=0.9, **CLASSES))
    state, _ = fed.start()
    received = receive(fed, state)
    groups = fed.algorithm.net.groups
    held = groups.present(RoundExecution(fed, state, {}).client(0).classes())
    assert held.sum() == 2
    [(weights, _)] = local(fed, received, [0])
    for name in groups.weights:
        moved = (groups.split(weights[name]) != groups.split(received[name])).flatten(1).any(1)
        if name == "head.bias":
            assert moved.tolist() == (held.tolist() if not options else [True] * 10)
        assert options or not moved[~held].any(), name
    assert not torch.equal(
        weights["extractor.conv1.layer.weight"], received["extractor.conv1.layer.weight"]
    )
    whole, trimmed = (
        next(
            iter(
                RoundExecution(
                    federation(config(algorithm={"name": "psi_net", "trim": trim}, **CLASSES)),
                    state,
                    {},
                ).train(received)
            )
        )
        for trim in (False, True)
    )
    sizes = [
        sum(tensor.numel() for key, tensor in item.message.items() if key in groups.weights)
        for item in (whole, trimmed)
    ]
    assert sizes[1] == sizes[0] / 5


def test_the_softmax_of_a_trimmed_client_by_hand():
    algorithm = psi(assembled([Conv("conv1", 5, 3), Dense("fc1", 10), Head(10)]), groups=5)
    counts = torch.tensor([3, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    client = Client(0, 4, 1, 0.1, 0.0, {}, lambda: counts, lambda: iter(()))
    own = algorithm.prepare({}, client)
    # class 1 shares its group with class 0
    assert own["trimmed"].logical_not().nonzero().flatten().tolist() == [0, 1, 4, 5]
    logits = torch.randn(4, 10, generator=rng.generator(0, "logits"), requires_grad=True)
    labels = torch.tensor([0, 0, 4, 0])
    value = algorithm.task_loss(
        Outputs(logits, logits, logits, {}), Batch(logits, labels, constants=own)
    )
    assert torch.allclose(
        value, F.cross_entropy(logits[:, [0, 1, 4, 5]], torch.tensor([0, 0, 2, 0]))
    )
    (slope,) = torch.autograd.grad(value, logits)
    assert (
        slope.isfinite().all()
        and (slope[:, [2, 3, 6, 7, 8, 9]] == 0).all()
        and (slope[:, [0, 1, 4, 5]] != 0).all()
    )


def test_statistics_of_a_group_are_averaged_over_who_holds_it():
    """Two classes in two groups, one client each, with means of 1 and of 5."""
    net = assembled([Conv("conv1", 2, 1, norm="batch"), Head(2)], shape=(2, 1, 1))
    method, name, updates = (
        psi(net, grouped_from="conv1", norm="model"),
        "extractor.conv1.norm.running_mean",
        [],
    )
    like = dict(method.net.state_dict())
    for counts, value in (([3, 0], 1.0), ([0, 5], 5.0)):
        client = Client(
            0,
            sum(counts),
            1,
            0.1,
            0.0,
            {},
            lambda counts=counts: torch.tensor(counts),
            lambda: iter(()),
        )
        own = like | {name: torch.full((2,), value)}
        updates.append(ClientUpdate(client, 0.5, method.finish(own, like, client).message))
    assert method.average(like, updates)[name].tolist() == [1, 5]


@pytest.mark.parametrize("model", [
    {"name": "vgg9", "width": 0.05, "norm": "batch", "dropout": 0, "map_dropout": 0},  # see below
    {"name": "mobilenet", "width": 0.1},
], ids=lambda model: model["name"])  # fmt: skip
def test_networks_with_batch_normalisation_in_groups(model):
    """As all experiments have them: batch normalisation in shared layers, group normalisation in
    the others. Where dropout takes the whole slice that a group of one channel sees, the group puts
    out a constant, which normalised is 0 but for rounding, and that decides on which side of ReLU's
    kink it lies: so none here."""
    begins = {"vgg9": "conv5", "mobilenet": "conv9_depth"}[model["name"]]
    settings = config(
        algorithm={"name": "psi_net", "grouped_from": begins},
        model=model,
        momentum=0.9,
        **CLASSES | {"rounds": 1, "batch_size": 6, "lr": 0.01, "local_epochs": 1},
    )
    data = images(60, 20, (3, 32, 32))
    one, other = (
        advance(federation(settings, data, executor))[0].weights
        for executor in ("stacked", "plain")
    )
    assert_close(one, other, 1e-10)


# The paper's set-ups
