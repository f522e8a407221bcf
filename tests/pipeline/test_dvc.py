"""DVC around Snakemake: dvc.yaml fits params.yaml at every scale, and a change reaches only what it
touches."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo

from fedrepro.cli import main
from fedrepro.config.params import read_params
from fedrepro.experiments import plan
from fedrepro.runs.paths import Paths
from support import pipeline
from support.checkout import HERE, ROOT, save

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
PAPER = "fedmmd"
KEPT = Path("results/kept")
FILES = ("Snakefile", "params.yaml", "dvc.yaml", "reports/dvc.yaml", ".dvcignore", ".gitignore")
SMALL = {
    "dataset": "digits",
    "rounds": 1,
    "train_images": 100,
    "test_images": 50,
    "model": {"width": 0.1},
}
OWN = {"mine": {"like": "small", "note": "of one's own"}}


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the repository, without data and results, as the working folder."""
    for name in (*FILES, *(path.relative_to(ROOT) for path in ROOT.glob("*/*/**/.gitignore"))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("src", "workflow", "profiles"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        ROOT / ".dvc",
        tmp_path / ".dvc",
        ignore=shutil.ignore_patterns("tmp", "cache", "config.local"),
    )
    (tmp_path / KEPT).mkdir(parents=True)
    for paper in PARAMS["papers"]:
        (tmp_path / KEPT / f"{paper}.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
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
    names = {name.partition("@")[0] for name in found if ":" not in name}
    assert names == {"prepare", "partition", "train", "report", "pages"}
    assert {
        f"{kind}@{paper}" for kind in ("train", "report") for paper in PARAMS["papers"]
    } <= found.keys()
    produced = {out.def_path for stage in found.values() for out in stage.outs}
    for stage in found.values():
        for dependency in stage.deps:
            if isinstance(dependency, ParamsDependency):
                dependency.validate_filepath()
                assert set(dependency.params) <= set(dependency.read_params()), stage.addressing
            else:
                assert dependency.def_path in produced or Path(dependency.fs_path).exists(), (
                    f"{stage.addressing}: {dependency}"
                )


def test_a_stage_of_a_paper_depends_on_no_other_paper(copy):
    """In both pipelines, so that a changed number in a paper's file makes that paper's stages
    alone."""
    for name, stage in stages().items():
        kind, _, paper = name.rpartition(":")[2].partition("@")
        found = {
            dependency.fs_path
            for dependency in stage.deps
            if Path(dependency.fs_path).is_relative_to(copy / "workflow/papers")
        }
        expected = (
            [] if kind == "prepare" or name == "pages" else [f"workflow/papers/{paper}".rstrip("/")]
        )
        assert found == {str(copy / folder) for folder in expected}, name


def test_every_data_set_of_the_papers_has_a_stage(copy):
    for scale in PARAMS["scales"]:
        planned = plan.plan_experiments(read_params(overrides={"scale": scale}), Paths())
        used = {run.config.dataset.name for run in plan.unique_runs(plan.all_experiments(planned))}
        assert {f"prepare@{name}" for name in used} <= stages().keys()


def test_what_is_committed_is_an_output_of_the_committed_scales(copy):
    """And stays in git; no other stage has it, and nothing else of a paper at a scale is stored
    there."""
    outs = [
        out for name, stage in stages().items() if name.startswith("reports/") for out in stage.outs
    ]
    assert all(out.persist and not out.use_cache for out in outs)
    folders = [Path(out.fs_path).relative_to(copy) for out in outs]
    listed = subprocess.run(
        ["git", "-C", str(HERE), "ls-files", "reports"], check=True, capture_output=True, text=True
    ).stdout
    files = [
        Path(name)
        for name in listed.split()
        if not name.startswith(("reports/vega/", "reports/dvc."))
    ]
    assert files and not [file for file in files if not {file, *file.parents} & {*folders}]


def test_a_fresh_clone_can_be_asked(copy):
    """Without an error: nothing is made yet."""
    for words in (["status"], ["repro", "--dry"]):
        done = subprocess.run(["dvc", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "report@fedmmd" in line]


def test_runs_and_artifacts_persist(copy):
    """What Snakemake makes anew only where it changed must not be deleted before it is asked; all
    of it is stored."""
    outs = [out for name, stage in stages().items() if ":" not in name for out in stage.outs]
    assert all(out.persist and out.use_cache for out in outs)
    expected = {"results/stored/fedmmd/runs", "data/prepared/digits", "data/partitions"}
    expected |= {f"reports/quick/fedmmd/{name}" for name in ("data", "figures", "tables")}
    assert expected <= {out.def_path for out in outs}


def test_no_setting_becomes_part_of_a_path(copy, tmp_path_factory):
    """DVC deletes outputs before it runs a command, and so before we check a setting."""
    precious = tmp_path_factory.mktemp("precious")
    names = ("index.html", "report.tex", "metrics.json")
    for folder in (
        precious,
        *map(Path, ("data/prepared", "data/partitions", f"results/stored/{PAPER}/runs")),
    ):
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (precious / name).write_text("mine")
    scale = os.path.relpath(precious, copy / "reports")
    change(
        lambda values: values.update(
            scale=scale, scales=values["scales"] | {scale: {"like": "quick"}}
        )
    )
    before = {name: [out.def_path for out in stage.outs] for name, stage in stages().items()}
    assert scale not in str(before)
    output = subprocess.run(
        ["dvc", "repro", "-s", "-f", f"report@{PAPER}"], capture_output=True, text=True
    )
    assert output.returncode != 0 and "a name consists of a to z" in output.stderr
    assert {path.name: path.read_text() for path in precious.iterdir()} == dict.fromkeys(
        names, "mine"
    )


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning:dvc")
def test_a_changed_number_trains_one_run_and_a_clone_has_it_all(copy, tmp_path_factory):
    """Neither runs that DVC has never seen nor an unfinished one go, only the paper's stages run,
    and what was pushed to a folder another clone pulls: runs, data and figures, and nothing is
    trained or drawn there."""
    change(shrink)
    change(lambda values: values["vars"][2].update(all_papers=[PAPER]), Path("dvc.yaml"))
    change(lambda values: values["stages"].pop("pages"), Path("dvc.yaml"))
    change(
        lambda values: values["stages"]["prepare"]["matrix"].update(data=["digits"]),
        Path("dvc.yaml"),
    )
    remote = tmp_path_factory.mktemp("remote")
    Path(".dvc/config.local").write_text(
        local := f"[core]\n    remote = folder\n['remote \"folder\"']\n    url = {remote}\n"
    )
    committed("one")
    assert main.main(["train"]) == 0
    first = trained()
    begun = Path("results/runs", PAPER, "begun", "checkpoint.safetensors")
    begun.parent.mkdir()
    begun.touch()
    dvc("repro", "-q")
    assert trained() == first and begun.exists()
    changed = f"workflow/papers/{PAPER}/experiments.yaml:fig4c.series.FedMMD.weight=0.5"
    made = re.findall("Running stage '(.*)'", dvc("exp", "run", "-S", changed))
    assert sorted(made) == ["partition", f"report@{PAPER}", f"train@{PAPER}"]
    second = trained()
    assert begun.exists() and first.items() <= second.items()
    assert [name.split("-")[1] for name in second.keys() - first.keys()] == ["fedmmd"]
    assert "fig4c.FedMMD" in dvc("metrics", "diff")
    committed("two")
    dvc("push", "-q")
    clone = tmp_path_factory.mktemp("clone")
    subprocess.run(["git", "clone", "-q", str(copy), str(clone)], check=True)
    os.chdir(clone)
    Path(".dvc/config.local").write_text(local)
    dvc("pull", "-q")
    assert Path("data/prepared/digits/arrays.npz").exists() and list(
        Path("data/partitions").glob("digits-*.npz")
    )
    assert Path("reports/quick", PAPER, "figures/fig4c.svg").exists()
    assert main.main(["restore"]) == 0 and trained().keys() == second.keys()
    assert "didn't change" in dvc("repro") and trained().keys() == second.keys()


def dvc(*words: str) -> str:
    """What a command prints; it must not fail."""
    environment = os.environ | {"PYTHONPATH": "src", "FEDREPRO_CORES": "1"}
    done = subprocess.run(["dvc", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def committed(message: str) -> None:
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", message], check=True
    )


def shrink(values: dict) -> None:
    """Leave one paper, and of that at scale quick one experiment of seconds."""
    values.update(scale="quick", device="cpu", papers=[PAPER])
    values["scales"]["quick"]["seeds"] = [0]
    save(Path("workflow/papers", PAPER, "scales.yaml"), {"quick": {"fig4c": SMALL}})


def trained() -> dict[str, int]:
    """The finished runs, and when each of them was trained."""
    runs = Path("results/runs", PAPER).glob("*/model.safetensors")
    return {run.parent.name: run.stat().st_mtime_ns for run in runs}
