"""`keep`: what it refuses, and the order of its steps."""

import os
from pathlib import Path

import pytest

from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.experiments import keep
from fedrepro.experiments.plan import plan_experiments
from fedrepro.runs import records
from fedrepro.runs.gather import ResultSources, gather
from fedrepro.runs.paths import Paths
from support.experiments import finish, params

NOTE = {
    "paper": "p",
    "experiment": "one",
    "compare": "full",
    "scale": "paper",
    "skipped": None,
    "series": {"A": {}},
}


@pytest.fixture(autouse=True)
def history(monkeypatch) -> None:
    """Pretend a history in which every code has a commit of the same name, without a mirror."""
    monkeypatch.setattr(provenance, "committed_digest", lambda commit, *executed: commit)
    monkeypatch.setattr(provenance, "commit_date", lambda commit: "2020-02-02")
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)


def item(paths: Paths):
    return plan_experiments(params(), paths)["p"]["one"]


@pytest.mark.parametrize("named", ["--output=precious", "", "HEAD", None, 7, {}])
def test_invalid_commit_names_are_not_passed_to_git(named, paths, tmp_path, monkeypatch):
    """`keep` and reports refuse the file with such a name, or a study's note."""
    monkeypatch.undo()
    monkeypatch.setattr(
        provenance, "_run_command", lambda *command, env: pytest.fail(f"asked: {command}")
    )
    run = finish(item(paths).runs[0], commit=named)
    gathering = ResultSources(NOTE, {"A": [run.folder]})
    for work in (
        lambda: keep.keep([item(paths)], paths),
        lambda: gather(gathering, tmp_path / "out"),
    ):
        with pytest.raises(
            UserError,
            match=r"(record|begun)\.json: environment\.commit: .*; delete .* to train the run "
            r"again",
        ):
            work()
    table = run.folder / "tsne-1.json"
    study = {
        "run": run.id,
        "code": "c",
        "settings": {},
        "columns": {},
        "environment": {"commit": named},
    }
    records.write(table, study)
    with pytest.raises(
        UserError, match=r"tsne-1\.json: environment\.commit: .*; delete .* to repeat the study"
    ):
        keep.study_commit(table, None)


@pytest.mark.parametrize(
    ("date", "git", "words"),
    [
        (
            None,
            "fatal: detected dubious ownership",
            "commit unknown, whose code cannot be read here; git: fatal: detected dubious",
        ),
        (
            None,
            "",
            "commit unknown, whose code cannot be read here; keep it in a checkout that has that "
            "commit",
        ),
        (
            "2020-02-02",
            "",
            "its code digest is not that of commit .*; .* or delete it, commit the code and run",
        ),
    ],
)
def test_keep_refuses_a_commit_whose_code_is_not_here(date, git, words, paths, monkeypatch):
    """If git cannot read this checkout, another one does not help; the last commit lacks the
    method's file."""
    run = finish(item(paths).runs[0], commit="unknown")
    monkeypatch.setattr(provenance, "committed_digest", lambda *_: None)
    monkeypatch.setattr(provenance, "commit_date", lambda *_: date)
    monkeypatch.setattr(provenance, "head_commit", lambda: (None, git))
    with pytest.raises(UserError, match=words):
        keep.keep([item(paths)], paths)
    assert run.summary.exists()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_keep_refuses_paths_that_are_not_files(make, paths):
    """And does not wait for a pipe."""
    run = finish(item(paths).runs[0])
    run.summary.unlink()
    make(run.summary)
    with pytest.raises(
        UserError, match=r"record\.json: not a file; delete .* to train the run again"
    ):
        keep.keep([item(paths)], paths)
    assert not (paths.results / "kept").exists()


def test_keep_writes_through_no_link(paths, tmp_path):
    """Which `git` may have brought."""
    finish(item(paths).runs[0])
    (tmp_path / "precious").mkdir()
    (paths.results / "kept").symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="kept: a link"):
        keep.keep([item(paths)], paths)
    assert not list((tmp_path / "precious").iterdir())
