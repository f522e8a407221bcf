"""Training from Python on data and networks of one's own, and finished runs in memory."""

import os

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
from fedrepro.runs.records import run_hash
from fedrepro.runs.run import Run
from fedrepro.training import run as engine
from fedrepro.training.federation import Federation
from fedrepro.training.run import Limits
from support.federation import advance, assert_same, config, federation, images

SETTINGS = {"clients_per_round": 3, "batch_size": 8, "lr": 0.05, "precision": "float64"}
UNEVEN = {"name": "dirichlet_by_class", "alpha": 0.5, "min_size": 5}


def own(data):
    return data.train_x.numpy(), data.train_y.numpy(), data.test_x, data.test_y


def test_own_arrays_by_name_are_the_same_federation():
    """On other arrays, since `images` has a data set's name: the rows are those of a federation with these settings, whose
    server weights clients by their images, as McMahan et al. do."""
    data, states = images(), []
    chosen = {"partition": UNEVEN, "model": {"name": "mlp", "units": 9}, "clients": 4, "rounds": 2}
    log = fedrepro.simulate(own(data), **chosen, algorithm="scaffold", seeds=[3, 4],
                            on_round=lambda state, row: states.append((row["seed"], state)), **SETTINGS)  # fmt: skip
    for seed in (3, 4):
        named = chosen | {"partition": chosen["partition"] | {"clients": 4}, "algorithm": {"name": "scaffold"}}
        settings = config(
            weighting="samples", **SETTINGS, **{key: named[key] for key in named if key != "clients"}, local_epochs=1, seed=seed
        )
        state, rows = advance(federation(settings, data))
        assert_same([one for number, one in states if number == seed][-1].weights, state.weights)
        ours = log[log["seed"] == seed].drop(columns=["seed", "seconds"]).to_dict("records")
        assert [{key: None if pd.isna(value) else value for key, value in row.items()} for row in ours] == rows


def test_arrays_of_other_layouts_are_the_same():
    data = images()
    x, x_test, y_test = (data.train_x / 255).bfloat16(), (data.test_x / 255).numpy(), data.test_y.numpy()
    plain = (x.float(), data.train_y, x_test, y_test)
    twisted = [x, data.train_y.numpy().astype(">i8"), x_test[:, :, ::-1].copy()[:, :, ::-1], y_test[::-1].copy()[::-1]]
    logs = [fedrepro.simulate(arrays, clients=4, rounds=1).drop(columns="seconds") for arrays in (plain, twisted)]
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
    (None, {}, "simulate: dataset: "), ("digits", {"model": nn.Linear}, "model: .*Pass a function without arguments"),
    ("digits", {"model": None}, "model: expected a name, a module or a function that makes one"),
    ("digits", {"model": lambda: None}, "model: expected a function that returns a torch module"),
    ("digits", {"model": frozen}, "model Sequential: all of its weights are frozen"),
    ([torch.zeros(4, 1, 3, 3), torch.zeros(4)] * 2, {}, r"train part: labels float32 \(4,\), expected \(N,\) whole numbers"),
    ([torch.zeros(4, 1, 3, 3), torch.ones(4, dtype=int)] * 2, {}, "simulate: dataset: labels: none is 0, but one is 1"),
    ("digits", {"partition": [[0, 1], [2]]}, "simulate: partition: expected a name, or .*partition listed"),
    ([np.ma.masked_greater(np.ones((4, 3, 3)), 0), DIGITS] * 2, {}, "a mask would be lost"),
    ([np.ones((4, 3, 3)), np.ma.masked_array(DIGITS, DIGITS == 1)] * 2, {}, "a mask would be lost"),
    ([np.ones((4, 8, 8, 3)), DIGITS] * 2, {}, r"images \(4, 8, 8, 3\): channels seem to be last. Pass np.moveaxis\(x, 3, 1\)"),
    ([np.ones((4, 6, 8, 3)), DIGITS] * 2, {}, "channels seem to be last"),
    ([np.ones((4, 8, 8, 1)), DIGITS] * 2, {}, "channels seem to be last"),
    ([np.ones((4, 1, 0, 3)), DIGITS] * 2, {}, r"train part: no images, or none with pixels: \(4, 1, 0, 3\)"),
    ([np.ones((4, 0, 3, 3)), DIGITS] * 2, {}, r"train part: no images, or none with pixels: \(4, 0, 3, 3\)"),
    ([[[1, 2], [3]], DIGITS] * 2, {}, "dataset: expected dense arrays or tensors of numbers: ValueError: "),
    ([torch.ones(4, 3, 3).to_sparse(), DIGITS] * 2, {}, "expected dense arrays or tensors .*Tensor.to_dense"),
    ([torch.ones(4, 3, 3, device="meta"), DIGITS] * 2, {}, "expected dense arrays or .*: NotImplementedError: "),
    ("digits", {"model": nn.LazyBatchNorm2d()}, "model: it cannot be .*Pass a function .*uninitialized parameter"),
    ("digits", {"model": lambda: nn.Linear(3, "a")}, "model: it cannot be made .*TypeError"),
    ("digits", {"model": lambda: nn.Sequential(nn.LazyConv3d(2, 9))}, r"cannot compute images of shape \(2, 1, 16, 16\)"),
    ("digits", {"model": lambda: Squeezing()}, r"simulate: model <lambda>: .* on images of shape \(1, 16, 16\): IndexError"),
    ("digits", {"model": lambda: NumpyWeights()}, "model NumpyWeights: two calls make other initial weights"),
    ("digits", {"clients_per_round": 11}, r"at most the 10 clients of the partition \(got 11\)"),
])  # fmt: skip
def test_a_mistake_is_one_message(dataset, options, words, tmp_path):
    with pytest.raises(UserError, match=words):
        fedrepro.simulate(dataset, **options, data=tmp_path)


METHODS = [{"name": "fedavg"}, {"name": "fedfusion"}, {"name": "fedma", "grow": True}]


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_a_finished_run_is_loaded(algorithm, tmp_path, monkeypatch):
    paths = Paths(tmp_path / "data", tmp_path / "results")
    settings = config(proxy=None, precision="float32", model={"width": 0.02}, rounds=1, algorithm=algorithm)
    datasets.provide("digits", paths.raw, paths.prepared("digits"))
    data = datasets.load(paths.prepared("digits"))
    name = f"made-{run_hash({'config': settings.model_dump(mode='json'), 'data': data.meta['identity'], 'code': 'code'})}"
    run = Run(paths.runs("paper") / name, settings, data.meta["identity"], "code")
    assert engine.train(run, data, partitions.for_run(settings, data), torch.device("cpu"), Limits())
    table = pd.DataFrame({"series": ["Mine", "Mine"], "seed": [0, 1], "run": [name, "gone"]})
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
    (run.folder / "model.safetensors").unlink()
    os.mkfifo(run.folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        fedrepro.load_run("paper", "experiment", "Mine")
