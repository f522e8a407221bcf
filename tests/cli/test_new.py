"""`fedrepro new`: what it writes works as it is, in a copy of the folders to which it adds."""

import csv
import importlib
import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedrepro import algorithms, models
from fedrepro.cli import main, new, own_run
from fedrepro.config import registry
from fedrepro.config.params import read_params
from fedrepro.config.types import Frozen
from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.experiments import plan, reports
from fedrepro.report import artifacts, paper
from fedrepro.runs.gather import gather
from fedrepro.runs.paths import Paths
from support.checkout import ROOT
from support.federation import advance, assert_close, config, federation


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Iterator[Path]:
    """A copy of the settings, with folders from which the package takes modules too."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "workflow/papers", tmp_path / "workflow/papers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)
    for package in (algorithms, models, datasets):
        own = tmp_path / "src" / package.__name__.replace(".", "/")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(own)])
    registry._names.cache_clear()
    yield tmp_path
    registry._names.cache_clear()
    for package in (algorithms, models, datasets):
        sys.modules.pop(f"{package.__name__}.mine", None)
        vars(package).pop("mine", None)


def write(capsys, kind: str) -> list[str]:
    """The files that a command writes, which it prints; given again, it writes nothing."""
    assert main.main(["new", kind, "mine"]) == 0
    lines = capsys.readouterr().out.splitlines()
    files = [line for line in lines if not line.startswith("next: uv run ")]
    assert all(Path(file).is_file() for file in files) and len(lines) == len(files) + len(
        new.NEXT[kind]
    )
    before = {file: Path(file).read_bytes() for file in files}
    assert main.main(["new", kind, "mine"]) == 2
    assert capsys.readouterr().err == f"error: {files[0]}: already exists. Choose another name.\n"
    assert {file: Path(file).read_bytes() for file in files} == before
    importlib.invalidate_caches()
    return files


@pytest.mark.parametrize("name", ["2nd", "class", "_mine", "Mine", "a-b", "../mine", "base", " "])
def test_a_name_that_is_no_module_is_refused(name, tree, capsys):
    assert (
        main.main(["new", "method", name]) == 2
        and "cannot be used as a name" in capsys.readouterr().err
    )
    assert not (tree / "src").exists() and main.OPTIONS["kind"]["choices"] == tuple(new.FILES)


def test_a_method_agrees_with_its_steps_by_hand(tree, capsys):
    """Not with those of another term."""
    _, test = write(capsys, "method")
    checks = runpy.run_path(test)
    checks["test_a_client_by_hand"]()
    checks["test_the_server_by_hand"]()
    *_, first, second, _, dataset = new.NEXT["method"][0].replace(new.PLACEHOLDER, "mine").split()
    own_run.settings_files([first, second], dataset, [])  # `run` knows it
    Path(test).write_text(Path(test).read_text().replace("value += MU / 2", "value += MU"))
    with pytest.raises(AssertionError):
        runpy.run_path(test)["test_a_client_by_hand"]()


def test_a_model_is_trained_alike_by_both_executors(tree, capsys):
    write(capsys, "model")
    settings = config(model={"name": "mine", "width": 0.2}, rounds=1)
    one, other = (
        advance(federation(settings, executor=name))[0].weights
        for name in ("sequential", "stacked")
    )
    assert "extractor.mix1.layer.weight" in one
    assert_close(one, other, 1e-12)


def test_a_data_set_is_read_but_refused_until_its_checksum_is_known(
    tree, package, capsys, monkeypatch
):
    [file] = write(capsys, "dataset")
    shutil.copy(file, package / "data/datasets")
    source, draw = (
        importlib.import_module("fedrepro.data.datasets.mine").SOURCES["mine"],
        np.random.default_rng(0),
    )
    monkeypatch.setitem(datasets.SOURCES, "mine", source)
    images = draw.integers(0, 256, (6, 28, 28), np.uint8)
    labels = np.arange(6) % 2
    (tree / "mirror/mine").mkdir(parents=True)
    np.savez(
        tree / "mirror/mine/mine.npz",
        train_x=images,
        train_y=labels,
        test_x=images[:2],
        test_y=labels[:2],
    )
    shapes = [array.shape for array in source.read(tree / "mirror/mine", Frozen())]
    assert shapes == [(6, 1, 28, 28), (6,), (2, 1, 28, 28), (2,)]
    with pytest.raises(UserError, match="mine: "):
        datasets.provide("mine", tree / "raw", tree / "prepared", str(tree / "mirror"))


def test_a_paper_is_trained_and_drawn_at_scale_quick(tree, capsys):
    """In seconds, and without a word about other papers; a comment of params.yaml stays."""
    # to plan one other paper
    before = re.sub(
        r"(?m)^papers: \[.* (\w+\])", r"papers: [\1", (tree / "params.yaml").read_text()
    )
    (tree / "params.yaml").write_text(before)
    assert write(capsys, "paper")[-1] == "params.yaml"
    after = (tree / "params.yaml").read_text()
    assert (
        after.replace(", mine]", "]").replace("[mine]", "[]") == before
        and after.count("mine]") == 4
    )
    assert main.main(["train", "mine", "--device", "cpu"]) == 0
    assert len(list(tree.glob("results/runs/*/*/record.json"))) == 4
    params, paths, folder = read_params(), Paths(), Path("reports/quick/mine")
    spec = paper.read_paper("mine", params)
    gather(reports.result_sources("mine", "fig1", params, paths), folder / "data")
    artifacts.write_artifacts(spec, spec.artifacts, folder)
    assert (folder / "figures/fig1.svg").stat().st_size > 10_000
    with (folder / "tables/table1.csv").open() as table:
        accuracies = {row["series"]: float(row["fig_1_percent"]) for row in csv.DictReader(table)}
    assert accuracies.keys() == {"FedAvg", "FedProx"} and min(accuracies.values()) > 40
    # it names what was run: ten clients, digits
    caption = (folder / "tables/table1.tex").read_text()
    assert "Dirichlet(0.5)" in caption and "100 clients" not in caption and "MNIST" not in caption
    assert (
        list(spec.claims) == ["fig1-higher"]
        and json.loads((folder / "tables/verdicts.json").read_text()) == []
    )
    for scale, seeds, rounds in (("small", 3, 40), ("paper", 1, 100)):
        alone = read_params(overrides={"scale": scale, "papers": ["mine"]})
        [item] = plan.plan_experiments(alone, paths)["mine"].values()
        assert len(item.runs) == 2 * seeds and {run.config.rounds for run in item.runs} == {rounds}
        assert alone.default_papers == ("mine",)
    assert "mine" not in read_params(overrides={"papers": ["fedcl", "mine"]}).default_papers
