"""Training from Python on data and networks of one's own, and finished runs in memory."""

import copy
import json
import os
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from torch import nn

import fedrepro
from fedrepro import simulation
from fedrepro.algorithms import FedAvg
from fedrepro.config.types import Frozen
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.data import datasets, partitions
from fedrepro.runs.paths import Paths, data_folder
from fedrepro.runs.records import run_hash
from fedrepro.runs.run import Run
from fedrepro.training import run as engine
from fedrepro.training.federation import Federation
from fedrepro.training.run import Limits
from support.federation import advance, assert_same, config, federation, images

ROOT = Path(__file__).parents[2]
SETTINGS = {"clients_per_round": 3, "batch_size": 8, "lr": 0.05, "precision": "float64"}
UNEVEN = {"name": "dirichlet_by_class", "alpha": 0.5, "min_size": 5}


def own(data):
    return data.train_x.numpy(), data.train_y.numpy(), data.test_x, data.test_y


def test_own_arrays_by_name_are_the_same_federation():
    """On other arrays, since `images` has a data set's name: the rows are those of a federation
    with these settings, whose server weights clients by their images, as McMahan et al. do."""
    data, states = images(), []
    chosen = {"partition": UNEVEN, "model": {"name": "mlp", "units": 9}, "clients": 4, "rounds": 2}
    log = fedrepro.simulate(
        own(data),
        **chosen,
        algorithm="scaffold",
        seeds=[3, 4],
        on_round=lambda run, row: states.append((row["seed"], run.state)),
        **SETTINGS,
    ).log
    for seed in (3, 4):
        named = chosen | {
            "partition": chosen["partition"] | {"clients": 4},
            "algorithm": {"name": "scaffold"},
        }
        settings = config(
            weighting="samples",
            **SETTINGS,
            **{key: named[key] for key in named if key != "clients"},
            local_epochs=1,
            seed=seed,
        )
        state, rows = advance(federation(settings, data))
        assert_same([one for number, one in states if number == seed][-1].weights, state.weights)
        ours = log[log["seed"] == seed].drop(columns=["seed", "seconds"]).to_dict("records")
        assert [
            {key: None if pd.isna(value) else value for key, value in row.items()} for row in ours
        ] == rows


def test_arrays_of_other_layouts_are_the_same():
    data = images()
    x, x_test, y_test = (
        (data.train_x / 255).bfloat16(),
        (data.test_x / 255).numpy(),
        data.test_y.numpy(),
    )
    plain = (x.float(), data.train_y, x_test, y_test)
    twisted = [
        x,
        data.train_y.numpy().astype(">i8"),
        x_test[:, :, ::-1].copy()[:, :, ::-1],
        y_test[::-1].copy()[::-1],
    ]
    logs = [
        fedrepro.simulate(arrays, clients=4, rounds=1).log.drop(columns="seconds")
        for arrays in (plain, twisted)
    ]
    assert logs[0].equals(logs[1])


DIGITS = np.array([0, 1, 0, 1])


class Squeezing(nn.Module):
    """Takes the batch of a single image for an axis to drop."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(16, 10)

    def forward(self, x):
        return self.dense(x.mean(2).squeeze())


class NumpyWeights(Squeezing):
    def __init__(self):
        super().__init__()
        self.dense.bias = nn.Parameter(torch.tensor(np.random.rand(10), dtype=torch.float32))


def frozen():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 10)).requires_grad_(False)


@pytest.mark.parametrize(
    ("dataset", "options", "words"),
    [
        ((1, 2), {}, r"dataset: expected \(x, y, x_test, y_test\) \(got 2 values\)"),
        (
            (torch.zeros(4, 1, 1, 1, 3), DIGITS) * 2,
            {},
            r"train part: images float32 \(4, 1, 1, 1, 3\), expected",
        ),
        ((torch.zeros(4, 3), DIGITS, torch.zeros(4, 3, 3), DIGITS), {}, r"\(4, 3\), expected"),
        (
            (-torch.ones(4, 3, dtype=int), DIGITS) * 2,
            {},
            r"or tokens from 0 to 16777215 \(got .* -1 to 0\)",
        ),
        (
            (torch.ones(4, 3, dtype=int), DIGITS) * 2,
            {},
            "model: none that has a name reads tokens. Pass a module",
        ),
        (
            (torch.ones(4, 3, dtype=int), DIGITS) * 2,
            {"model": lambda: nn.Linear(3, 1), "clients": 2},
            r"model Linear: cannot compute rows of torch.int64 of shape \(2, 3\): RuntimeError",
        ),
        ("mnit", {}, "unknown dataset 'mnit'"),
        ("digits", {"model": "mpl"}, "unknown model 'mpl'"),
        ("digits", {"algorithm": {"name": "fedprox", "my": 1}}, "my: unknown key"),
        ("digits", {"lt": 1}, "simulate: lt: unknown key"),
        ("digits", {"seed": 7}, r"simulate: seed: not a setting here. Pass seeds=\[7\]"),
        ("digits", {"seeds": 3}, "simulate: seeds: "),
        ("digits", {"seeds": [-1]}, "simulate: seeds.0: "),
        ("digits", {"seeds": [0, 0]}, "simulate: seeds: "),
        ("digits", {"clients": 0}, "simulate: clients: .*got 0"),
        ("digits", {"clients": 2.5}, "simulate: clients: "),
        (
            "digits",
            {"partition": {"name": "iid", "clients": 5}},
            "simulate: partition.clients: not a setting here. Pass clients=5",
        ),
        (None, {}, "simulate: dataset: "),
        ("digits", {"model": nn.Linear}, "model: .*Pass a function without arguments"),
        (
            "digits",
            {"model": None},
            "model: expected a name, a module or a function that makes one",
        ),
        (
            "digits",
            {"model": lambda: None},
            "model: expected a function that returns a torch module",
        ),
        ("digits", {"model": frozen}, "model Sequential: all of its weights are frozen"),
        (
            [torch.zeros(4, 1, 3, 3), torch.zeros(4)] * 2,
            {},
            "labels float32: only classes are learned. Pass whole numbers",
        ),
        (
            [torch.zeros(4, 1, 3, 3), torch.zeros(4, dtype=bool)] * 2,
            {},
            r"labels bool \(4,\), expected \(N,\) whole numbers",
        ),
        (
            [torch.zeros(4, 1, 3, 3), torch.ones(4, dtype=int)] * 2,
            {},
            "simulate: dataset: labels: none is 0, but one is 1",
        ),
        (
            "digits",
            {"partition": None},
            "simulate: partition: expected a name, .* or a list of each client's images: TypeError",
        ),
        ("digits", {"partition": [[], [0, 1]]}, "partition listed: clients: 1 of 2 got no images"),
        ("digits", {"partition": [[0, 1], [2, 1]]}, "partition listed: images: 1 is listed twice"),
        (
            "digits",
            {"partition": [[0, 1], [0.5]]},
            "partition listed: images.1.0: .*valid integer .got 0.5",
        ),
        (
            "digits",
            {"partition": [[0, 1], [True]]},
            "partition listed: images.1.0: .*valid integer .got True",
        ),
        (
            "digits",
            {"partition": [[0, 1], [9999]]},
            "partition listed: client 1: image 9999: the data set has 1438 train images",
        ),
        # at once
        (
            "digits",
            {"partition": [[*range(60_000), 59_999], [0]]},
            "partition listed: images: 59999 is listed twice",
        ),
        (
            "digits",
            {"partition": [np.ma.masked_equal([0, 1], 1), [2]]},
            "partition listed: images.0.1: Input should be a valid",
        ),
        (
            "digits",
            {"partition": [[0, 1], [2], []]},
            "partition listed: clients: 1 of 3 got no images",
        ),
        (
            "digits",
            {"partition": [[0, 1], [2]], "clients": 3},
            r"partition listed: clients: partition listed lists 2 \(got 3\)",
        ),
        ("digits", {"partition": []}, "simulate: clients: .*got 0"),
        ("digits", {"partition": "listed"}, "partition listed: expected either file or images"),
        (
            "digits",
            {"algorithm": nn.Linear},
            "algorithm: expected a name or a subclass of .*FedAvg",
        ),
        ("digits", {"algorithm": type("Odd", (FedAvg,), {"Params": object})}, "with Params of"),
        (
            "digits",
            {"algorithm": {"name": type("Odd", (FedAvg,), {}), "mu": 1}},
            r"algorithm \S+\.Odd: mu: unknown key",
        ),
        ("digits", {"algorithm": {"mu": 1}}, "algorithm: .*got None"),
        (
            "digits",
            {"algorithm": type("Odd", (FedAvg,), {"loss": lambda self, *_: 1 / 0})},
            "algorithm Odd: round 1 fails, .*Zero",
        ),
        ("digits", {"optimizer": "adma"}, "simulate: optimizer"),
        (
            "digits",
            {"metrics": {"top": 5}},
            "simulate: metrics.top: Input should be callable .got 5",
        ),
        (
            "digits",
            {"metrics": {"lr": len}},
            "metrics: lr is a column of the log. Choose another name",
        ),
        (
            "digits",
            {"metrics": {"top": lambda scores, labels: scores}},
            "metrics.top: on the scores and labels of 359 images: ",
        ),
        ("digits", {"on_round": 3}, "simulate: on_round: Input should be callable .got 3"),
        ("digits", {"device": "gpu"}, "device: expected one of auto, cpu, cuda"),
        ("digits", {"executor": "fast"}, "executor: expected on cpu one of auto, "),
        ([np.ma.masked_greater(np.ones((4, 3, 3)), 0), DIGITS] * 2, {}, "a mask would be lost"),
        (
            [np.ones((4, 3, 3)), np.ma.masked_array(DIGITS, DIGITS == 1)] * 2,
            {},
            "a mask would be lost",
        ),
        (
            [np.ones((4, 8, 8, 3)), DIGITS] * 2,
            {},
            r"images \(4, 8, 8, 3\): channels seem to be last. Pass np.moveaxis\(x, 3, 1\)",
        ),
        ([np.ones((4, 6, 8, 3)), DIGITS] * 2, {}, "channels seem to be last"),
        ([np.ones((4, 8, 8, 1)), DIGITS] * 2, {}, "channels seem to be last"),
        (
            [np.ones((4, 1, 0, 3)), DIGITS] * 2,
            {},
            r"train part: no images, or none with pixels: \(4, 1, 0, 3\)",
        ),
        (
            [np.ones((4, 0, 3, 3)), DIGITS] * 2,
            {},
            r"train part: no images, or none with pixels: \(4, 0, 3, 3\)",
        ),
        (
            [[[1, 2], [3]], DIGITS] * 2,
            {},
            "dataset: expected dense arrays or tensors of numbers: ValueError: ",
        ),
        (
            [torch.ones(4, 3, 3).to_sparse(), DIGITS] * 2,
            {},
            "expected dense arrays or tensors .*Tensor.to_dense",
        ),
        (
            [torch.ones(4, 3, 3, device="meta"), DIGITS] * 2,
            {},
            "expected dense arrays or .*: NotImplementedError: ",
        ),
        (
            "digits",
            {"model": nn.LazyBatchNorm2d()},
            "model: it cannot be .*Pass a function .*uninitialized parameter",
        ),
        ("digits", {"model": lambda: nn.Linear(3, "a")}, "model: it cannot be made .*TypeError"),
        (
            "digits",
            {"model": lambda: nn.Sequential(nn.LazyConv3d(2, 9))},
            r"cannot compute images of shape \(2, 1, 16, 16\)",
        ),
        (
            "digits",
            {"model": lambda: Squeezing()},
            r"simulate: model <lambda>: .* on images of shape \(1, 16, 16\): IndexError",
        ),
        (
            "digits",
            {"model": lambda: NumpyWeights()},
            "model NumpyWeights: two calls make other initial weights",
        ),
        (
            "digits",
            {"clients_per_round": 11},
            r"at most the 10 clients of the partition \(got 11\)",
        ),
    ],
)
def test_a_mistake_is_one_message(dataset, options, words, tmp_path):
    with pytest.raises(UserError, match=words):
        fedrepro.simulate(dataset, **options, data=tmp_path)


X, Y = (torch.randn(200, 16, generator=rng.generator(0, name)) for name in ("inputs", "noise"))
TABLE = (
    X,
    (X[:, 0] + 0.1 * Y[:, 0] > 0).long() + (X[:, 1] > 0),
    X[:50],
    (X[:50, 0] > 0).long() + (X[:50, 1] > 0),
)


class Person(nn.Module):
    """Names of its own, a shared weight, running statistics, the scores not last."""

    def __init__(self, inputs=16):
        super().__init__()
        self.scores, self.first = nn.Linear(8, 3), nn.Linear(inputs, 8)
        self.same, self.norm = nn.Linear(inputs, 8), nn.BatchNorm1d(8)
        self.same.weight = self.first.weight

    def forward(self, x):
        return self.scores(self.norm(self.first(x) + self.same(x)).relu())


class Reader(nn.Module):
    def __init__(self, words=40):
        super().__init__()
        self.words, self.scores = nn.Embedding(words, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.scores(self.words(x).mean(1))


def tokens(count, seed):
    """Sentences of twelve words, the first twelve of which say the class."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, count)
    return np.where(
        draw.random((count, 12)) < 0.5,
        4 * labels[:, None] + draw.integers(0, 4, (count, 12)),
        draw.integers(12, 40, (count, 12)),
    ), labels


def test_a_person_trains_stops_saves_and_loads_in_plain_torch(tmp_path):
    x, y, x_test, y_test = TABLE
    result = fedrepro.simulate(
        TABLE,
        model=Person,
        clients=4,
        rounds=50,
        optimizer={"name": "adam", "beta1": 0.8},
        lr=0.01,
        metrics={"again": lambda scores, labels: (scores.argmax(1) == labels).float().mean()},
        on_round=lambda run, row: row["test_accuracy"] > 0.9,
    )
    result.save(tmp_path / "new" / "folder")
    network = Person()
    network.load_state_dict(
        safetensors.torch.load_file(tmp_path / "new/folder/model-0.safetensors"), strict=True
    )
    last = result.log.iloc[-1]
    assert (
        (network.eval()(x_test).argmax(1) == y_test).double().mean()
        == last["test_accuracy"]
        == pytest.approx(last["again"])
    )
    assert (
        last["round"] < 50
        and last["test_accuracy"] > 0.9
        and (result.log["test_accuracy"][:-1] <= 0.9).all()
    )
    assert (
        type(result.model) is Person
        and not result.model.training
        and result.model.same.weight is result.model.first.weight
    )
    assert_same(result.model.state_dict(), network.state_dict())
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "new/folder/log.csv"), result.log, check_dtype=False
    )
    settings = json.loads((tmp_path / "new/folder/settings.json").read_text())
    assert (settings["lr"], settings["seeds"], settings["optimizer"]["beta1"]) == (0.01, [0], 0.8)
    with pytest.raises(
        UserError, match=r"log.csv: cannot be written: File exists. Choose another folder"
    ):
        result.save(tmp_path / "new/folder/log.csv")
    (tmp_path / "other" / "model-0.safetensors").mkdir(parents=True)
    with pytest.raises(
        UserError, match=r"other: cannot be written: Is a directory. Choose another folder"
    ):
        result.save(tmp_path / "other")


class Twice(nn.Module):
    """A layer with two names, of which torch's functional_call would restore the wrong weights; and
    a shared weight."""

    def __init__(self):
        super().__init__()
        self.first, self.same, self.scores = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.again, self.same.weight = self.first, self.first.weight

    def forward(self, x):
        return self.scores(self.again(self.first(x).relu()).relu() + self.same(x).relu())


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_layer_that_is_used_twice_trains(executor):
    """By hand: the mean of two clients' single steps, weighted by their images."""
    parts, chosen = (
        [range(50), range(50, 200)],
        {"model": Twice, "rounds": 1, "batch_size": 200, "executor": executor},
    )
    start = fedrepro.simulate(TABLE, partition=parts, lr=1e-30, **chosen).model
    result = fedrepro.simulate(TABLE, partition=parts, lr=0.5, **chosen)
    stepped = []
    for part in parts:
        module = copy.deepcopy(start).train()
        nn.functional.cross_entropy(
            module(X[part.start : part.stop]), TABLE[1][part.start : part.stop]
        ).backward()
        stepped.append([weight.detach() - 0.5 * weight.grad for weight in module.parameters()])
    expected = [0.25 * one + 0.75 * other for one, other in zip(*stepped, strict=True)]
    torch.testing.assert_close([*map(torch.detach, result.model.parameters())], expected)
    assert result.model.again is result.model.first


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_tokens_train_a_module_that_reads_them(executor, caplog):
    data = (*tokens(300, 0), *tokens(100, 1))
    result = fedrepro.simulate(data, model=Reader, clients=5, rounds=6, lr=1.0, executor=executor)
    assert not caplog.records and result.log["test_accuracy"].iloc[-1] > 0.8
    scores = result.model(torch.tensor(data[2]))
    assert (scores.argmax(1).numpy() == data[3]).mean() == result.log["test_accuracy"].iloc[-1]
    with pytest.raises(
        UserError, match="model Reader: cannot compute rows of torch.int64 .*: IndexError"
    ):
        fedrepro.simulate(data, model=lambda: Reader(39))


@pytest.mark.parametrize(
    "model",
    [
        "mlp",
        "logistic",
        lambda: nn.Linear(16, 3),
        lambda: nn.Sequential(nn.Linear(16, 3)),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 3)),
        lambda: nn.Sequential(nn.Linear(16, 9), nn.ReLU(), nn.LazyLinear(3)),
    ],
)
def test_tables_train(model):
    result = fedrepro.simulate(
        tuple(part.numpy() for part in TABLE), model=model, clients=4, rounds=20, lr=0.5
    )
    scores = result.model(TABLE[2][:, :, None, None] if isinstance(model, str) else TABLE[2])
    scores = scores.logits if isinstance(model, str) else scores
    assert (
        (scores.argmax(1) == TABLE[3]).double().mean() == result.log["test_accuracy"].iloc[-1] > 0.8
    )


class Proximal(FedAvg):
    """FedProx, as one may write it in a notebook."""

    class Params(Frozen):
        mu: float = 0.0

    def loss(self, weights, received, batch):
        apart = sum((weights[name] - received[name]).square().sum() for name in self.trained)
        return super().loss(weights, received, batch) + self.params.mu / 2 * apart


def test_a_method_may_be_a_class():
    chosen = {"clients": 4, "rounds": 2, "lr": 0.05, "local_epochs": 3}
    options = [{"name": Proximal, "mu": 0.5}, {"name": "fedprox", "mu": 0.5}, Proximal, "fedavg"]
    ends = [fedrepro.simulate(TABLE, algorithm=algorithm, **chosen) for algorithm in options]
    losses = [end.log["train_loss"].iloc[-1] for end in ends]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[2] == pytest.approx(
        losses[3], rel=1e-5
    )
    assert losses[0] != pytest.approx(losses[2], rel=1e-5)
    assert ends[0].settings["algorithm"] == {"name": f"{__name__}.Proximal", "mu": 0.5}


def test_clients_have_the_images_that_a_list_gives_them(tmp_path):
    """The same as a file says; each client's accuracy is on its part of the test set."""
    parts = [np.arange(0, 60), range(60, 90), list(range(90, 200))]
    lines = "\n".join(
        f"{client},{image}" for client, images in enumerate(parts) for image in images
    )
    (tmp_path / "clients.csv").write_text(f"client,image\n{lines}\n")
    chosen = {"model": Person, "rounds": 3, "train_images": 150}
    result = fedrepro.simulate(TABLE, partition=parts, **chosen)
    filed = fedrepro.simulate(
        TABLE,
        partition={"name": "listed", "file": str(tmp_path / "clients.csv")},
        clients=3,
        **chosen,
    )
    pd.testing.assert_frame_equal(result.clients, filed.clients)
    used = partitions.subset(simulation._from_arrays(*TABLE), 150, None)[0]
    numbers = [np.intersect1d(used, np.asarray(part)) for part in parts]
    assert result.clients["images"].tolist() == [len(part) for part in numbers]
    assert result.clients["weight"].tolist() == pytest.approx([len(part) / 150 for part in numbers])
    counts = [np.bincount(TABLE[1][part], minlength=3).tolist() for part in numbers]
    assert result.clients[["class_0", "class_1", "class_2"]].to_numpy().tolist() == counts
    last = result.log.iloc[-1]
    assert fedrepro.simulate(
        TABLE, partition=parts, measures=["initial_accuracy_all"], **(chosen | {"rounds": 4})
    ).log["initial_accuracy_all"].iloc[-1] == pytest.approx(result.clients["accuracy"].mean())
    assert last["round"] == 3 and result.log["test_accuracy"].notna().all()


def test_what_on_round_returns():
    """True ends the training of a seed, and no other value does; the run has the current
    network."""
    rows, models = [], []

    def watch(run, row):
        rows.append((row["seed"], row["round"]))
        models.append((run.network, row["test_accuracy"]))
        return np.bool_(True) if (row["seed"], row["round"]) == (1, 2) else len(rows)

    result = fedrepro.simulate(
        TABLE, model=Person, clients=4, rounds=3, seeds=[1, 2], on_round=watch
    )
    assert rows == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)] and list(result.models) == [1, 2]
    assert [(network(TABLE[2]).argmax(1) == TABLE[3]).double().mean() for network, _ in models] == [
        one for _, one in models
    ]
    assert result.log["round"].tolist() == [0, 1, 2, 0, 1, 2, 3] and len(result.clients) == 8
    assert_same(result.models[1].state_dict(), models[1][0].state_dict())
    assert result.model is result.models[1]


@pytest.mark.parametrize("stop", [(3, 0), (3, 2), (4, 0), (4, 1)])
def test_ctrl_c_returns_what_there_is(stop, caplog):
    """In any round, or between two seeds; a metric is the user's code in each."""
    seen = []

    def interrupt(scores, labels):
        seen.append(len(seen))
        if (3, seen[-1]) == stop or (4, seen[-1] - 4) == stop:
            raise KeyboardInterrupt
        return 0

    chosen = {"model": Person, "clients": 4, "rounds": 3, "seeds": [3, 4]}
    if stop == (3, 0):
        with pytest.raises(KeyboardInterrupt):
            fedrepro.simulate(TABLE, metrics={"m": interrupt}, **chosen)
        return
    result = fedrepro.simulate(TABLE, metrics={"m": interrupt}, **chosen)
    whole = fedrepro.simulate(TABLE, metrics={"m": lambda *_: 0}, **chosen).log.drop(
        columns="seconds"
    )
    pd.testing.assert_frame_equal(result.log.drop(columns="seconds"), whole.iloc[: len(seen) - 1])
    seed, last = int(result.log["seed"].iloc[-1]), result.log["round"].iloc[-1]
    assert [record.message for record in caplog.records] == [
        f"simulate: stopped after round {last} of 3, seed {seed}"
    ]
    accuracy = (result.models[seed](TABLE[2]).argmax(1) == TABLE[3]).double().mean()
    assert accuracy == result.log["test_accuracy"].iloc[-1] and len(result.clients) == 4 * len(
        result.models
    )


def test_a_metric_is_of_evaluated_rounds_alone():
    log = fedrepro.simulate(
        TABLE,
        clients=4,
        rounds=5,
        evaluate_every=2,
        metrics={"m": lambda scores, labels: len(labels)},
    ).log
    assert (
        log["m"].isna().tolist()
        == log["test_accuracy"].isna().tolist()
        == [False, True, False, True, False, False]
    )
    assert log["m"].max() == 50


def test_a_model_with_more_than_its_own_weights_is_saved_too(tmp_path):
    data = images()
    result = fedrepro.simulate(
        own(data), algorithm="fedfusion", model="mnist_cnn", clients=4, rounds=1, seeds=[5]
    )
    result.save(tmp_path)
    saved = safetensors.torch.load_file(tmp_path / "model-5.safetensors")
    assert_same(saved, result.model.weights)
    x = data.test_x / 255
    assert (result.model(x).logits.argmax(1) == data.test_y).double().mean() == result.log[
        "test_accuracy"
    ].iloc[-1]


def test_outside_of_a_checkout_data_go_to_the_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fedrepro.simulate("digits", rounds=1, model="logistic")
    assert (tmp_path / "cache/fedrepro/prepared/digits/arrays.npz").exists() and not (
        tmp_path / "data"
    ).exists()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache/fedrepro"
    for name in ("workflow", "inner"):
        (tmp_path / name).mkdir()
    (tmp_path / "params.yaml").touch()
    monkeypatch.chdir(tmp_path / "inner")
    assert data_folder() == tmp_path / "data"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_examples_learn(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ended = runpy.run_path(str(path))
    plt.close("all")
    assert capsys.readouterr().out
    # which git ignores in a checkout
    assert {one.name for one in tmp_path.iterdir()} <= {"data", "fedrepro", "results"}
    assert ended["result"].log["test_accuracy"].iloc[-1] > 0.6
    assert (
        len(path.read_text().splitlines()) <= 40
        and f"(../examples/{path.name})" in (ROOT / "docs/python.md").read_text()
    )


METHODS = [{"name": "fedavg"}, {"name": "fedfusion"}, {"name": "fedma", "grow": True}]


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_a_finished_run_is_loaded(algorithm, tmp_path, monkeypatch):
    paths = Paths(tmp_path / "data", tmp_path / "results")
    settings = config(
        proxy=None, precision="float32", model={"width": 0.02}, rounds=1, algorithm=algorithm
    )
    datasets.provide("digits", paths.raw, paths.prepared("digits"))
    data = datasets.load(paths.prepared("digits"))
    values, identity = settings.model_dump(mode="json"), data.meta["identity"]
    name = f"made-{run_hash({'config': values, 'data': identity, 'code': 'code'})}"
    run = Run(paths.runs("paper") / name, settings, data.meta["identity"], "code")
    assert engine.train(
        run, data, partitions.for_run(settings, data), torch.device("cpu"), Limits()
    )
    table = pd.DataFrame({"series": ["Mine", "Mine"], "seed": [0, 1], "run": [name, "gone"]})
    monkeypatch.setattr(simulation.results, "runs", lambda *names: table)
    monkeypatch.setattr(simulation, "repository_root", lambda: tmp_path)
    loaded = fedrepro.load_run("paper", "experiment", "Mine")
    wanted, rows = advance(
        Federation(settings, data, partitions.for_run(settings, data), torch.device("cpu"))
    )
    assert_same(loaded.weights, wanted.weights)
    x, y = loaded.federation.data.test_x, loaded.federation.data.test_y
    assert (loaded.network(x).logits.argmax(1) == y).double().mean().item() == rows[-1][
        "test_accuracy"
    ]
    assert loaded.partition.clients == 4 and loaded.config == settings
    for names, words in (
        (("Mine", 1), "gone/model.safetensors: the weights are not here"),
        (("Mine", 2), "choose from 0, 1"),
        (("Mean", 0), "unknown series 'Mean'"),
    ):
        with pytest.raises(UserError, match=words):
            fedrepro.load_run("paper", "experiment", *names)
    (run.folder / "model.safetensors").unlink()
    os.mkfifo(run.folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        fedrepro.load_run("paper", "experiment", "Mine")
