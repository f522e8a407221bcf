"""Records of runs: what is read is what was written, whatever is damaged is named, and branches
that kept runs merge."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fedrepro.config.params import read_params
from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.experiments import plan
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from support.checkout import ROOT
from support.experiments import ROWS, finish, params, shelve

KEPT = sorted((ROOT / "results/kept").iterdir())
STUDY = {
    "settings": {},
    "code": "c",
    "environment": {"commit": "abcdef0"},
    "columns": {"unit": [1, 1], "x": [2, "a"]},
}


# ---- the committed ones


def test_every_kept_result_is_named_by_todays_settings(monkeypatch):
    """Planned with the data that each was made from."""
    monkeypatch.chdir(ROOT)
    kept = {path.stem: records.load_kept(path) for path in KEPT}
    data = {
        datasets.key(run["config"]["dataset"]): run["data"]
        for runs in kept.values()
        for run in runs.values()
    }
    monkeypatch.setattr(
        datasets,
        "planned_identity",
        lambda choice, *where: data.get(datasets.key(choice), "unknown"),
    )
    found = set()
    for scale in ("small", "paper"):
        settings = read_params(overrides={"scale": scale})
        planned = plan.all_experiments(plan.plan_experiments(settings, Paths()))
        found |= {run.folder for run in plan.unique_runs(planned) if run.is_kept}
    assert (
        found
        == {Paths().kept(paper) / run for paper, runs in kept.items() for run in runs}
        != set()
    )


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_the_committed_files_are_what_is_written_of_them(path, tmp_path):
    """Sorted by run; the digest of a run's numbers is that of its table, without the seconds of its
    rounds."""
    runs = records.load_kept(path)
    records.save(tmp_path / path.name, [record for _, record in sorted(runs.items())])
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    for record in runs.values():
        assert record["metrics"] == records.digest(record["columns"])
        assert record["columns"]["round"] == list(range(record["rounds"] + 1))


# ---- tables


def test_a_cell_is_the_number_whose_text_it_is():
    texts = [
        "7",
        "07",
        "7.0",
        "0.1",
        "1e-05",
        "1E-5",
        "nan",
        "inf",
        "conv1",
        "",
        "1_0",
        "9" * 5000,
        "1e999",
    ]
    table = records.columns(["x"], [[text] for text in texts])
    assert table == {
        "x": [
            7,
            "07",
            7.0,
            0.1,
            1e-05,
            "1E-5",
            "nan",
            "inf",
            "conv1",
            None,
            "1_0",
            "9" * 5000,
            "1e999",
        ]
    }
    assert [row["x"] for row in records.rows(table)] == texts
    assert records.columns(["a", "b"], [[0.1 + 0.2, None], [float("nan"), 3]]) == {
        "a": [0.30000000000000004, "nan"],
        "b": [None, 3],
    }
    assert (
        records.columns(["a", "b"], []) == {"a": [], "b": []}
        and records.rows({"a": [], "b": []}) == []
    )


def test_the_digest_is_of_the_numbers_as_a_csv_file_without_seconds():
    table = {"round": [0, 1], "x": [None, 0.5], "seconds": [None, 1.5]}
    assert records.digest(table) == records.sha256("round,x\n0,\n1,0.5\n")


# ---- damaged


@pytest.fixture
def runs(paths) -> list[Run]:
    """Two kept runs by name, the first with a study."""
    found = []
    for run in plan.plan_experiments(params(), paths)["p"]["one"].runs[:2]:
        found.append(finish(Run(paths.kept("p") / run.id, run.config, run.data, run.code)))
    found.sort(key=lambda run: run.id)
    shelve(found[0], records.load(found[0].folder) | {"studies": {"tsne-1": STUDY}})
    return found


def test_what_was_kept_is_read(runs):
    """A study may have no rows, as that of a run that diverged before its first round."""
    assert [
        row["test_accuracy"] for row in records.rows(records.load(runs[1].folder)["columns"])
    ] == [
        "0.1",
        "0.25",
        "0.5",
        "0.75",
    ]
    assert (
        records.load_studies(runs[0].folder) == {"tsne-1": STUDY}
        and records.load_studies(runs[1].folder) == {}
    )
    assert records.load_study(runs[0].folder / "tsne-1.json") == STUDY
    with pytest.raises(UserError, match=r"p\.jsonl: lacks p-0123456789; git restore"):
        records.load(runs[0].folder.with_name("p-0123456789"))
    with pytest.raises(UserError, match=rf"p\.jsonl: {runs[1].id} lacks tsne-1; git restore"):
        records.load_study(runs[1].folder / "tsne-1.json")


def test_each_letter_of_a_line_is_sealed(runs):
    """A changed letter, anywhere in it, and a line that is cut off or ends otherwise."""
    path = runs[0].folder.parent
    first, second = path.read_bytes().splitlines(keepends=True)
    for place in range(0, len(second) - 1, 41):
        other = bytes([second[place] ^ 1])
        path.write_bytes(first + second[:place] + other + second[place + 1 :])
        with pytest.raises(
            UserError,
            match=r"p\.jsonl: line 2: changed since it was written; git restore results/kept "
            r"brings",
        ):
            records.load_kept(path)
    for line in (
        second[: len(second) // 2] + b"\n",
        second.replace(b"\n", b"\r\n"),
        b"\n",
        b"{}\n",
        b"\xff\n",
        second[:-2],
    ):
        path.write_bytes(first + line)
        with pytest.raises(UserError, match=r"p\.jsonl: line 2: (changed|damaged)"):
            records.load_kept(path)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (piped, "not a file; git restore"),
        (lambda path: path.unlink() or path.mkdir(), "not a file; git restore"),
        (
            lambda path: os.truncate(path, 3 << 30),
            f"{3 << 30} bytes, of which at most {1 << 30} are read; git restore",
        ),
    ],
    ids=["a pipe", "a folder", "large"],
)
def test_only_a_regular_file_of_bounded_size_is_read(change, words, runs):
    change(runs[0].folder.parent)
    with pytest.raises(UserError, match=rf"p\.jsonl: {words}"):
        records.load_kept(runs[0].folder.parent)


WRONG = {
    "weights": (None, "weights: "),
    "rounds": ("many", "rounds: "),
    "studies": ([1], "studies: "),
    "run": ("../x", "run: .*pattern"),
    "columns": ({"round": [0, 1], "x": [0.5]}, "columns: not of one length"),
    "config": ({"lr": 7}, "not the settings that .* is named after"),
    "environment": (
        {"commit": "--output=x", "device": "", "executor": "", "hardware": "", "torch": ""},
        "environment.commit: ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_sealed_record_must_not_say_is_named(name, runs):
    """Whoever wrote it."""
    value, words = WRONG[name]
    record = records.load(runs[1].folder) | {name: value}
    records.save(runs[1].folder.parent, [records.load(runs[0].folder), record])
    with pytest.raises(
        UserError, match=rf"p\.jsonl: line 2: {words}.*; git restore results/kept brings back"
    ):
        records.load_kept(runs[1].folder.parent)


def test_deep_json_is_no_traceback(tmp_path):
    text = '"x": ' + "[" * 100_000 + "\n"
    (tmp_path / "p.jsonl").write_text(f'{{"seal": "{records.sha256(text[:-1])}", {text}')
    with pytest.raises(UserError, match=r"line 1: damaged, no record in JSON; git restore"):
        records.load_kept(tmp_path / "p.jsonl")


# ---- git


@pytest.fixture
def git(paths, tmp_path):
    """A repository around the kept runs, with this one's attributes."""
    who = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.autocrlf=true",
    ]

    def call(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    shutil.copy(ROOT / ".gitattributes", tmp_path)
    call("init", "-q", "-b", "main")
    return call


def test_a_clone_has_the_bytes_that_were_committed(runs, git, tmp_path):
    """Whatever line ends git is told to write."""
    git("add", ".")
    git("commit", "-qm", "one")
    git("clone", "-q", str(tmp_path), str(tmp_path / "clone"))
    assert (tmp_path / "clone/results/kept/p.jsonl").read_bytes() == runs[
        0
    ].folder.parent.read_bytes()


def test_what_two_branches_kept_is_read(paths, git):
    """A run each, with other columns; and one that both kept, with a study each and in other
    seconds."""
    planned = plan.plan_experiments(params(), paths)["p"]["one"].runs
    both, first, second = (
        Run(paths.kept("p") / run.id, run.config, run.data, run.code) for run in planned[:3]
    )
    git("add", ".")
    git("commit", "-qm", "base")
    for branch, run, text, seconds in (
        ("left", first, "round,x\n0,1\n", 1.5),
        ("right", second, ROWS, 2.5),
    ):
        git("checkout", "-qb", branch, "main")
        finish(run, text)
        finish(both, seconds=seconds)
        shelve(both, records.load(both.folder) | {"studies": {f"tsne-{branch}": STUDY}})
        git("add", ".")
        git("commit", "-qm", branch)
    git("merge", "-q", "left", "-m", "both")
    found = records.load_kept(both.folder.parent)
    assert found.keys() == {both.id, first.id, second.id}
    assert found[both.id]["studies"].keys() == {"tsne-left", "tsne-right"}


def test_the_same_run_from_two_branches_is_refused(runs):
    """Trained twice, to other numbers."""
    path, one = runs[0].folder.parent, records.load(runs[0].folder)
    records.save(path, [one, one | {"metrics": "other"}])
    with pytest.raises(
        UserError,
        match=rf"p\.jsonl: line 2: differs from another line of {runs[0].id}; leave one of them",
    ):
        records.load_kept(path)


def test_a_record_of_another_run_is_refused(paths):
    """As after copying one folder's file over another's."""
    first, second = (
        finish(run) for run in plan.plan_experiments(params(), paths)["p"]["one"].runs[:2]
    )
    shutil.copy(first.summary, second.summary)
    with pytest.raises(
        UserError,
        match=rf"record\.json: of another run, {first.id}; delete {second.folder} to train",
    ):
        records.load(second.folder)
    copy = shutil.copytree(first.folder, first.folder.with_name(f"{first.id}-old"))
    with pytest.raises(
        UserError,
        match=r"begun\.json: not the settings that its folder is named after; delete .*-old ",
    ):
        records.begun(first.folder.parent)
    shutil.rmtree(copy)
    assert records.begun(first.folder.parent).keys() == {first.folder, second.folder}
    assert json.loads((first.folder / "begun.json").read_text())["data"] == first.data
