"""Finished runs that are handed to DVC and taken back."""

import json
import os
import shutil
from pathlib import Path

import pytest

from fedrepro import cli, files, intact, stored
from fedrepro.errors import UserError

RECORD = {"config": {"lr": 0.1}, "data": "d", "code": "c"}


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    runs, kept = tmp_path / "runs" / "p", tmp_path / "stored" / "p"
    runs.mkdir(parents=True)
    return runs, kept


def a_run(folder: Path, finished: bool = True) -> Path:
    """A run whose folder is named as its settings want it."""
    run = folder / f"r-{intact.key(RECORD)}"
    (run / "snapshots").mkdir(parents=True)
    (run / "config.json").write_text(json.dumps(RECORD | {"dataset": "d"}))
    (run / "snapshots" / "3").write_text("weights")
    (run / "metrics.csv").write_text("round,test_accuracy\n1,0.5\n")
    if finished:
        told = {"status": "finished", "rounds": 1, "weights": 1, "bytes_down": 1, "bytes_up": 1, "data": "d", "code": "c"}
        digest = files.digest((run / "metrics.csv").read_bytes())
        files.write_json(run / "summary.json", told | {"final": {"test_accuracy": 0.5}, "metrics": digest})
    return run


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_and_back(folders):
    runs, kept = folders
    run = a_run(runs)
    before = content(runs)
    assert stored.store(runs, kept) == [kept / run.name] and content(kept) == before
    assert os.path.samefile(run / "metrics.csv", kept / run.name / "metrics.csv")  # no bytes are copied where links can be made
    assert stored.store(runs, kept) == stored.restore(kept, runs) == []
    shutil.rmtree(run)
    assert stored.restore(kept, runs) == [run] and content(runs) == before


def test_without_links(folders, monkeypatch):
    def refused(*_):
        raise OSError("another disk")

    monkeypatch.setattr(stored.os, "link", refused)
    runs, kept = folders
    run = a_run(runs)
    stored.store(runs, kept)
    assert content(kept) == content(runs) and not os.path.samefile(run / "metrics.csv", kept / run.name / "metrics.csv")


def test_what_is_unfinished_stays(folders):
    runs, kept = folders
    run = a_run(runs, finished=False)
    assert stored.store(runs, kept) == [] and list(kept.iterdir()) == []
    (run / "checkpoint.safetensors").write_text("state")
    whole = a_run(kept)
    for name in (".summary.json.1-2.part", "tsne-1.begun"):
        (whole / name).write_text("half")
    with files.holding(run):
        assert stored.restore(kept, runs) == []
    assert stored.restore(kept, runs) == [run]  # the end of what was begun here
    assert sorted(content(run)) == ["config.json", "metrics.csv", "snapshots/3", "summary.json"]


def test_what_came_later(folders):
    """A study of a run that is stored already, and a run that was trained anew."""
    runs, kept = folders
    run = a_run(runs)
    stored.store(runs, kept)
    (run / "tsne-1.csv").write_text("x")
    assert stored.store(runs, kept) == [kept / run.name] and content(kept) == content(runs)
    (kept / run.name / "tsne-2.csv").write_text("x")
    assert stored.restore(kept, runs) == [run] and content(kept) == content(runs)
    shutil.rmtree(run)
    a_run(runs)
    (run / "summary.json").write_text("{}")
    assert stored.store(runs, kept) == [kept / run.name] and content(kept) == content(runs)  # none of the old run's studies


@pytest.mark.parametrize("name", ["config.json", "metrics.csv"])
def test_what_is_damaged_does_not_come_back(folders, name):
    runs, kept = folders
    run = a_run(runs)
    stored.store(runs, kept)
    shutil.rmtree(run)
    path = kept / run.name / name
    path.write_text(path.read_text().replace("0.", "0.9"))
    with pytest.raises(UserError, match=f"delete {kept / run.name} to train the run anew"):
        stored.restore(kept, runs)
    assert not run.exists()


def test_commands(tmp_path, monkeypatch, capsys):
    shutil.copy(Path(__file__).parents[1] / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    run = a_run(Path("results/runs/fedmmd"))
    assert cli.main(["store"]) == 0 and capsys.readouterr().out == f"results/stored/fedmmd/{run.name}\n"
    shutil.rmtree(run)
    assert cli.main(["restore", "--paper", "fedcl"]) == 0 and capsys.readouterr().out == ""
    assert cli.main(["restore", "--paper", "fedmmd"]) == 0 and capsys.readouterr().out == f"{run}\n"
    assert cli.main(["store", "--paper", "fedmm"]) == 2 and "choose from fedmmd" in capsys.readouterr().err
