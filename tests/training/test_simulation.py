"""Training from Python on data and networks of one's own, and finished runs in memory."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedrepro
from fedrepro import simulation
from fedrepro.core.errors import UserError
from fedrepro.data import datasets, partitions
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import run as engine
from fedrepro.training.federation import Federation
from fedrepro.training.run import Limits
from support.federation import advance, assert_same, config, federation, images

SETTINGS = {"clients_per_round": 3, "batch_size": 8, "lr": 0.05, "precision": "float64"}


def own(data):
    return data.train_x.numpy(), data.train_y.numpy(), data.test_x, data.test_y


def test_own_arrays_by_name_are_the_same_federation():
    """On other arrays, since `images` has a data set's name: the rows are those of a federation with these settings."""
    data, states = images(), []
    chosen = {"partition": {"name": "shards", "shards": 2}, "model": {"name": "mlp", "units": 9}, "clients": 4, "rounds": 2}
    log = fedrepro.simulate(own(data), **chosen, algorithm="scaffold", seeds=[3, 4],
                            on_round=lambda state, row: states.append((row["seed"], state)), **SETTINGS)  # fmt: skip
    for seed in (3, 4):
        named = chosen | {"partition": chosen["partition"] | {"clients": 4}, "algorithm": {"name": "scaffold"}}
        settings = config(**SETTINGS, **{key: named[key] for key in named if key != "clients"}, local_epochs=1, seed=seed)
        state, rows = advance(federation(settings, data))
        assert_same([one for number, one in states if number == seed][-1].weights, state.weights)
        ours = log[log["seed"] == seed].drop(columns=["seed", "seconds"]).to_dict("records")
        assert [{key: None if pd.isna(value) else value for key, value in row.items()} for row in ours] == rows


def test_own_module_learns():
    data = images()

    def make():
        return nn.Sequential(nn.Flatten(), nn.Linear(144, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 10))

    log = fedrepro.simulate(
        (data.train_x[:, 0].double() / 255, data.train_y, data.test_x[:, 0] / 255, data.test_y), model=make, rounds=25
    )
    assert log["round"].tolist() == list(range(26)) and log["test_accuracy"].iloc[-1] > 0.95


def test_arrays_of_other_layouts_are_the_same():
    data = images()
    x, x_test, y_test = (data.train_x / 255).bfloat16(), (data.test_x / 255).numpy(), data.test_y.numpy()
    plain = (x.float(), data.train_y, x_test, y_test)
    twisted = [x, data.train_y.numpy().astype(">i8"), x_test[:, :, ::-1].copy()[:, :, ::-1], y_test[::-1].copy()[::-1]]
    logs = [fedrepro.simulate(arrays, clients=4, rounds=1).drop(columns="seconds") for arrays in (plain, twisted)]
    assert logs[0].equals(logs[1])


def test_a_run_that_diverges_says_so(caplog):
    log = fedrepro.simulate("digits", clients=4, rounds=3, lr=1e30)
    assert log["round"].max() < 3 and "simulate: seed 0 diverged in round 1. Its rows end there" in caplog.text


def frozen():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 10)).requires_grad_(False)


@pytest.mark.parametrize(("dataset", "options", "words"), [
    ((1, 2), {}, r"dataset: expected \(x, y, x_test, y_test\) \(got 2 values\)"),
    ((torch.zeros(4, 3), torch.zeros(4, dtype=int)) * 2, {}, r"train part: images float32 \(4, 3\), expected"),
    ("mnit", {}, "unknown dataset 'mnit'"), ("digits", {"model": "mpl"}, "unknown model 'mpl'"),
    ("digits", {"algorithm": {"name": "fedprox", "my": 1}}, "my: unknown key"),
    ("digits", {"lt": 1}, "simulate: lt: unknown key"),
    ("digits", {"seed": 7}, r"simulate: seed: not a setting here. Pass seeds=\[7\]"),
    ("digits", {"seeds": 3}, "simulate: seeds: "), ("digits", {"seeds": [-1]}, "simulate: seeds.0: "),
    ("digits", {"seeds": [0, 0]}, "simulate: seeds: "), ("digits", {"clients": 0}, "simulate: clients: .*got 0"),
    ("digits", {"clients": None}, "simulate: clients: "),
    ("digits", {"partition": {"name": "iid", "clients": 5}}, "simulate: partition.clients: not a setting here. Pass clients=5"),
    (None, {}, "simulate: dataset: "), ("digits", {"model": nn.Linear}, "model: .*Pass a module, or a function without arg"),
    ("digits", {"model": None}, "model: expected a name, a module or a function that makes one"),
    ("digits", {"model": lambda: None}, "model: expected a function that returns a torch module"),
    ("digits", {"model": frozen}, "model Sequential: all of its weights are frozen"),
    ([torch.zeros(4, 1, 3, 3), torch.zeros(4)] * 2, {}, r"train part: labels float32 \(4,\), expected \(N,\) whole numbers"),
    ([torch.zeros(4, 1, 3, 3), torch.ones(4, dtype=int)] * 2, {}, "simulate: dataset: labels: none is 0, but one is 1"),
    ("digits", {"clients_per_round": 11}, r"at most the 10 clients of the partition \(got 11\)"),
])  # fmt: skip
def test_a_mistake_is_one_message(dataset, options, words, tmp_path):
    with pytest.raises(UserError, match=words):
        fedrepro.simulate(dataset, **options, data=tmp_path)


def test_as_many_take_part_whatever_kind_of_number_is_given():
    found = [fedrepro.simulate(own(images()), clients=clients, rounds=1, model={"name": "mlp", "units": 9}, batch_size=8)
             for clients in (3, np.int64(3), 3.0)]  # fmt: skip
    assert len({tuple(log["bytes_up"].dropna()) for log in found}) == 1


METHODS = [{"name": "fedavg"}, {"name": "fedfusion"}, {"name": "fedma", "grow": True}]


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_a_finished_run_is_loaded(algorithm, tmp_path, monkeypatch):
    paths = Paths(tmp_path / "data", tmp_path / "results")
    settings = config(proxy=None, precision="float32", model={"width": 0.02}, rounds=1, algorithm=algorithm)
    datasets.provide("digits", paths.raw, paths.prepared("digits"))
    data = datasets.load(paths.prepared("digits"))
    run = Run(paths.runs("paper") / "made", settings, data.meta["identity"], "code")
    assert engine.train(run, data, partitions.for_run(settings, data), torch.device("cpu"), Limits())
    table = pd.DataFrame({"series": ["Mine", "Mine"], "seed": [0, 1], "run": ["made", "gone"]})
    monkeypatch.setattr(simulation.results, "runs", lambda *names: table)
    monkeypatch.setattr(simulation, "repository_root", lambda: tmp_path)
    loaded = fedrepro.load_run("paper", "experiment", "Mine")
    wanted, rows = advance(Federation(settings, data, partitions.for_run(settings, data), torch.device("cpu")))
    assert_same(loaded.weights, wanted.weights)
    x, y = loaded.federation.data.test_x, loaded.federation.data.test_y
    assert (loaded.network(x).logits.argmax(1) == y).double().mean().item() == rows[-1]["test_accuracy"]
    assert loaded.partition.clients == 4 and loaded.config == settings
    for names, words in ((("Mine", 1), "gone/model.safetensors: the weights are not here"), (("Mine", 2), "choose from 0, 1"),
                         (("Mean", 0), "unknown series 'Mean'")):  # fmt: skip
        with pytest.raises(UserError, match=words):
            fedrepro.load_run("paper", "experiment", *names)
