"""DVC around Snakemake: dvc.yaml fits params.yaml at every scale, and a change reaches only what it touches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo

from fedrepro.cli import main
from support import pipeline
from support.checkout import ROOT, save

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
PAPER = "fedmmd"
KEPT = Path("results/kept")
SMALL = {"dataset": "digits", "rounds": 1, "train_images": 100, "test_images": 50, "model": {"width": 0.1}}
OWN = {"mine": {"like": "small", "note": "of one's own"}}


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the repository, without data and results, as the working folder."""
    for name in ("Snakefile", "params.yaml", "dvc.yaml", ".dvcignore", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("src", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / ".dvc", tmp_path / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache", "config.local"))
    (tmp_path / KEPT).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    return tmp_path


def change(edit, path: Path = Path("params.yaml")) -> None:
    """Apply a function to the settings in a file."""
    values = pipeline.read(path)
    edit(values)
    save(path, values)


def stages() -> dict:
    with Repo(".") as repo:
        return {stage.addressing: stage for stage in repo.index.stages}


@pytest.mark.parametrize("scale", {**PARAMS["scales"], **OWN})
def test_stages_fit_the_settings(copy, scale):
    change(lambda values: values.update(scale=scale, scales=values["scales"] | OWN))
    found = stages()
    assert set(found) == {"data", "train", "report"}
    for stage in found.values():
        for dependency in stage.deps:
            if isinstance(dependency, ParamsDependency):
                dependency.validate_filepath()
                assert set(dependency.params) <= set(dependency.read_params()), stage.addressing
            else:
                produced = dependency.def_path.startswith(("data/", "results/stored"))
                assert produced or Path(dependency.def_path).exists(), f"{stage.addressing}: {dependency}"


def test_runs_and_artifacts_persist(copy):
    """What Snakemake makes anew only where it changed must not be deleted before it is asked."""
    found = stages()
    (runs,) = found["train"].outs
    assert (runs.def_path, runs.persist, runs.use_cache) == ("results/stored", True, True)
    (reports,) = found["report"].outs
    assert (reports.def_path, reports.persist, reports.use_cache) == ("reports", True, False)


def test_no_setting_becomes_part_of_a_path(copy, tmp_path_factory):
    """DVC deletes outputs before it runs a command, and so before we check a setting."""
    precious = tmp_path_factory.mktemp("precious")
    names = ("index.html", "report.tex", "metrics.json")
    for folder in (precious, *map(Path, ("data/prepared", "data/partitions", "results/stored"))):
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (precious / name).write_text("mine")
    scale = os.path.relpath(precious, copy / "reports")
    change(lambda values: values.update(scale=scale, scales=values["scales"] | {scale: {"like": "quick"}}))
    before = {name: [out.def_path for out in stage.outs] for name, stage in stages().items()}
    assert scale not in str(before)
    output = subprocess.run(["dvc", "repro", "-s", "-f", "report"], capture_output=True, text=True)
    assert output.returncode != 0 and "a name consists of a to z" in output.stderr
    assert {path.name: path.read_text() for path in precious.iterdir()} == dict.fromkeys(names, "mine")


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning:dvc")
def test_a_changed_number_trains_one_run_and_deletes_none(copy, monkeypatch):
    """Neither runs that DVC has never seen nor an unfinished one go, DVC stores them all, and a second call trains nothing."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    change(shrink)
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"], check=True)
    assert main.main(["train"]) == 0
    with Repo(".") as repo:
        repo.commit("data", force=True)  # as if its stage had made them
    first = trained()
    begun = Path("results/runs", PAPER, "begun", "checkpoint.safetensors")
    begun.parent.mkdir()
    begun.touch()
    changed = f"workflow/papers/{PAPER}/experiments.yaml:fig4c.series.FedMMD.weight=0.5"
    subprocess.run(["dvc", "exp", "run", "-q", "-s", "-S", changed, "train"], check=True)
    second = trained()
    assert begun.exists() and first.items() <= second.items()
    assert [name.split("-")[1] for name in second.keys() - first.keys()] == ["fedmmd"]
    with Repo(".") as repo:
        assert repo.reproduce("train", single_item=True) == []
    shutil.rmtree(Path("results/runs"))
    assert main.main(["restore"]) == 0
    assert trained().keys() == second.keys()


def shrink(values: dict) -> None:
    """Leave one paper, and of that at scale quick one experiment of seconds."""
    values.update(scale="quick", device="cpu", papers=[PAPER])
    values["scales"]["quick"]["seeds"] = [0]
    save(Path("workflow/papers", PAPER, "scales.yaml"), {"quick": {"fig4c": SMALL}})


def trained() -> dict[str, int]:
    """The finished runs, and when each of them was trained."""
    runs = Path("results/runs", PAPER).glob("*/model.safetensors")
    return {run.parent.name: run.stat().st_mtime_ns for run in runs}
