"""The committed results: what is read is what was kept, and today's settings name all of it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fedrepro.config.params import read_params
from fedrepro.core.errors import UserError
from fedrepro.core.files import MACHINE, sha256
from fedrepro.data import datasets
from fedrepro.experiments import plan
from fedrepro.runs import integrity, kept
from fedrepro.runs.kept import ENVIRONMENTS, METRICS, RUNS, STUDIES, SUMS, is_kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from support.checkout import ROOT
from support.experiments import ROWS, finish, params, unshelve

KEPT = ROOT / "results/kept"


# ---- the committed ones


def test_every_kept_result_is_named_by_todays_settings(monkeypatch):
    """Planned with the data that each was made from."""
    monkeypatch.chdir(ROOT)
    papers = kept.load_all(Path("results/kept"))
    records = [record for paper in papers.values() for record in paper.runs.values()]
    data = {datasets.key(record["config"]["dataset"]): record["data"] for record in records}
    monkeypatch.setattr(datasets, "planned_identity", lambda choice, *where: data.get(datasets.key(choice), "unknown"))
    found = set()
    for scale in ("small", "paper"):
        settings = read_params(overrides={"scale": scale})
        planned = plan.all_experiments(plan.plan_experiments(settings, Paths()))
        found |= {run.folder for run in plan.unique_runs(planned) if is_kept(run.folder)}
    assert found == {Paths().kept(name) / run for name, paper in papers.items() for run in paper.runs} != set()


def test_the_committed_files_are_what_is_written_of_them(tmp_path):
    """And no other; reading them holds all rows against their runs."""
    kept.save(tmp_path, kept.load_all(KEPT))
    assert contents(tmp_path) == contents(KEPT)


# ---- damaged


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def runs(paths) -> list[Run]:
    """Two kept runs by name, the first with a study."""
    found = []
    for run in plan.plan_experiments(params(), paths)["p"]["one"].runs[:2]:
        found.append(finish(Run(paths.kept("p") / run.id, run.config, run.data, run.code)))
    found.sort(key=lambda run: run.id)
    add_study(found[0])
    return found


def add_study(run: Run, name: str = "tsne-1") -> None:
    folder, text = run.folder.parents[1], "unit,x\n1,2\n1,3\n"
    papers = kept.load_all(folder)
    note = {"code": "c", "settings": {}, "table": sha256(text), "environment": {"commit": "abcdef0"}}
    papers["p"].add_study(run.id, name, note, [{"unit": "1", "x": "2"}, {"unit": "1", "x": "3"}])
    kept.save(folder, papers)


def test_a_study_without_rows_is_kept(runs):
    """As of a run that diverged before the study's first round."""
    folder = runs[1].folder.parents[1]
    papers = kept.load_all(folder)
    note = {"code": "c", "settings": {}, "table": sha256("round,client\n"), "environment": {"commit": "abcdef0"}}
    papers["p"].add_study(runs[1].id, "clients-1", note, [], ["round", "client"])
    kept.save(folder, papers)
    assert integrity.load_study_rows(runs[1].folder / "clients-1.csv") == []
    assert len(integrity.load_study_rows(runs[0].folder / "tsne-1.csv")) == 2


def test_what_was_kept_is_read_and_sha256sum_checks_it(runs):
    folder = runs[0].folder.parents[1]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=folder, check=True)
    assert contents(folder).keys() == {SUMS, ENVIRONMENTS, f"p/{RUNS}", f"p/{METRICS}", f"p/{STUDIES}"}
    assert [row["test_accuracy"] for row in integrity.load_metrics(runs[1].folder)] == ["0.1", "0.25", "0.5", "0.75"]
    assert integrity.load_study_rows(runs[0].folder / "tsne-1.csv") == [{"unit": "1", "x": "2"}, {"unit": "1", "x": "3"}]
    assert integrity.load_record(runs[0].folder)["studies"]["tsne-1"]["environment"] == {"commit": "abcdef0"}
    for work in (integrity.load_record, integrity.load_metrics):
        with pytest.raises(UserError, match=r"(runs\.jsonl|metrics\.csv): lacks p-0123456789; git restore"):
            work(runs[0].folder.with_name("p-0123456789"))


def test_seconds_of_rounds_are_kept_beside_rows_without(runs):
    """Rows of earlier runs have none, and no checksum covers them: another session takes other seconds for the same rows."""
    folder, run = runs[0].folder.parents[1], runs[0]
    papers, before = kept.load_all(folder), integrity.load_metrics(run.folder)
    record = integrity.load_record(run.folder) | {"round_seconds": [1.5, 2.5, 3.5], "studies": {}}
    seconds = [row | {"seconds": text} for row, text in zip(before, ["", "1.5", "2.5", "3.5"], strict=True)]
    papers["p"].remove(run.id)
    papers["p"].add(record, seconds)
    kept.save(folder, papers)
    assert integrity.load_metrics(run.folder) == seconds and "round_seconds" not in integrity.load_record(run.folder)
    assert "seconds" not in integrity.load_metrics(runs[1].folder)[0]


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", [ENVIRONMENTS, f"p/{RUNS}", f"p/{METRICS}", f"p/{STUDIES}"])
@pytest.mark.parametrize(("change", "words"), [
    (lambda path: path.write_bytes(path.read_bytes().replace(b"1", b"2", 1)), "changed since it was kept; git restore"),
    (lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")), "changed since it was kept; git restore"),
    (Path.unlink, "listed in .*SHA256SUMS, but not there; git restore"),
    (piped, "not a file; git restore"),
    (lambda path: os.truncate(path, 3 << 30), f"{3 << 30} bytes, of which at most {1 << 30} are read; git restore"),
], ids=["changed", "line ends", "gone", "a pipe", "large"])  # fmt: skip
def test_a_file_that_is_not_the_one_that_was_kept_is_named(name, change, words, runs):
    """Before anything is planned."""
    change(runs[0].folder.parents[1] / name)
    with pytest.raises(UserError, match=f"{name}: {words}"):
        kept.load_runs(runs[0].folder.parent)


def test_files_that_are_not_listed_are_refused(runs):
    (runs[0].folder.parents[1] / SUMS).unlink()
    with pytest.raises(UserError, match=r"metrics\.csv: not listed in .*SHA256SUMS; git restore"):
        kept.load_runs(runs[0].folder.parent)


def relisted(folder: Path) -> None:
    """As if a changed file had been kept."""
    found = {name: content for name, content in sorted(contents(folder).items()) if name != SUMS}
    (folder / SUMS).write_text("".join(f"{sha256(content)}  {name}\n" for name, content in found.items()))


def lines(change) -> object:
    """A change of a file's lines."""
    return lambda text: "".join(change(text.splitlines(keepends=True)))


DAMAGES = {
    "cut": (RUNS, lambda text: text[: len(text) // 3] + "\n", "line 1: no run in JSON"),
    "no object": (RUNS, lambda text: "[]\n" + text, "line 1: .*valid dictionary"),
    "a key less": (RUNS, lambda text: text.replace('"weights"', '"weight"', 1), "line 1: weights: Field required"),
    "no studies": (
        RUNS,
        lambda text: re.sub('"studies": {"tsne-1": {.*?}}', '"studies": [1]', text, count=1),
        "line 1: studies: ",
    ),
    "a study of a number": (
        RUNS,
        lambda text: re.sub('"studies": {"tsne-1": {.*?}}', '"studies": {"tsne-1": 1', text, count=1),
        "line 1: ",
    ),
    "a list of columns": (RUNS, lambda text: text.replace('"columns": [', '"columns": [7, ', 1), "line 1: columns.0: "),
    "an environment of a number": (ENVIRONMENTS, lambda text: re.sub(": {.*}", ": 7", text, count=1), "line 2: no environment"),
    "rounds without end": (
        RUNS,
        lambda text: re.sub('"rounds": [0-9]+, "s(?!chedule)', f'"rounds": {10**15}, "s', text, count=1),
        f"line 1: metrics.csv has 4 rows of .*, not {10**15 + 1}",
    ),
    **{
        f"the run {name}": (
            RUNS,
            lambda text, name=name: text.replace('{"run": "', f'{{"run": "{name}', 1),
            "line 1: run: .*pattern",
        )
        for name in ("../", "/", "a/../", "\\u0000")
    },
    "other settings": (RUNS, lambda text: text.replace('"lr": 0.1', '"lr": 0.2'), "line 1: not the settings that .* is named"),
    "swapped": (RUNS, lines(lambda all: all[::-1]), "line 2: not in order"),
    "twice": (RUNS, lines(lambda all: all[:1] * 2), "line 2: not in order"),
    "a run less": (RUNS, lines(lambda all: all[:1]), rf"{METRICS}: rows of .*, which runs.jsonl does not list"),
    "no environment": (ENVIRONMENTS, lambda text: "{\n}\n", rf"{RUNS}: line 1: environments.json lacks"),
    "half an environment": (ENVIRONMENTS, lambda text: text.replace("}", ""), "line 2: no environment in JSON"),
    "rows swapped": (METRICS, lines(lambda all: [*all[:2], all[3], all[2], *all[4:]]), "line 4: not in order"),
    "a row twice": (METRICS, lines(lambda all: [*all[:2], *all[1:]]), "line 3: not in order"),
    "a row less": (METRICS, lines(lambda all: all[:-1]), rf"{RUNS}: line 2: metrics.csv has 3 rows of .*, not 4"),
    "no rows": (METRICS, lines(lambda all: all[:1]), rf"{RUNS}: line 1: metrics.csv has 0 rows of .*, not 4"),
    "a number": (METRICS, lambda text: text.replace("0.25", "0.99", 1), "the rows of .* are not those that it wrote"),
    "a cell more": (METRICS, lambda text: text.replace("0.25", "0.25,", 1), "line 3: no row of the 3 columns"),
    "no round": (METRICS, lambda text: text.replace(",1,", ",one,", 1), "line 3: no row of the 3 columns"),
    "a column": (METRICS, lambda text: text.replace("test_accuracy", "accuracy"), "lacks the column 'test_accuracy'"),
    "a quote": (METRICS, lambda text: text.replace("0.25", '"0.25', 1), "line 9: unexpected end of data"),
    "a study's row": (STUDIES, lines(lambda all: all[:-1]), rf"{RUNS}: line 1: studies.csv has 1 rows of .* tsne-1, not 2"),
    "a study's number": (STUDIES, lambda text: text.replace(",3", ",4"), "the rows of .* are not those that it wrote"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_fit_together_is_named_with_file_and_line(damage, runs):
    """Though SHA256SUMS lists it, as after a careless merge."""
    name, change, words = DAMAGES[damage]
    folder = runs[0].folder.parents[1]
    path = folder / name if name == ENVIRONMENTS else folder / "p" / name
    path.write_text(change(path.read_text()))
    relisted(folder)
    words = words if words.startswith((RUNS, METRICS)) else rf"{name}: {words}"
    with pytest.raises(UserError, match=rf"{words}.*; git restore results/kept brings back"):
        kept.load_paper(folder / "p")


def test_bytes_that_are_no_text(runs):
    path = runs[0].folder.parent / METRICS
    path.write_bytes(path.read_bytes().replace(b"0.25", b"\xff", 1))
    relisted(path.parents[1])
    with pytest.raises(UserError, match=r"metrics\.csv: line 3: not UTF-8; git restore"):
        kept.load_runs(path.parent)


@pytest.mark.parametrize("line", [
    "", "x", f"{'0' * 63}  p/{RUNS}", f"{'0' * 64} p/{RUNS}", f"{'0' * 64}  ", "\0",
    *(f"{'0' * 64}  {name}" for name in (
        f"../precious/{RUNS}", f"/precious/{RUNS}", f"p/../../{RUNS}", f"./p/{RUNS}", f"../{ENVIRONMENTS}", "p/x.csv", "..")),
])  # fmt: skip
def test_any_other_line_of_the_sums_is_refused(line, runs):
    path = runs[0].folder.parents[1] / SUMS
    path.write_text(path.read_text() + f"{line}\n")
    for work in (kept.checksums, kept.recover):
        with pytest.raises(UserError, match="SHA256SUMS: line 5: not a sha256 and the name of a file; git restore"):
            work(path.parent)


def test_nothing_is_settled_behind_a_link(tmp_path):
    """Which `git` may have brought: what was left there by a killed process would go, too."""
    precious = tmp_path / "precious" / f".x.{MACHINE}-4194303.part"
    precious.parent.mkdir()
    precious.touch()
    for place in (tmp_path / "kept", tmp_path / "kept" / "p"):
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(precious.parent)
        with pytest.raises(UserError, match=f"{place}: a link"):
            kept.recover(tmp_path / "kept")
        place.unlink()
    assert precious.exists()


# ---- git


@pytest.fixture
def git(paths, tmp_path):
    """A repository around the kept runs, with this one's attributes."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-c", "core.autocrlf=true"]

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
    assert contents(tmp_path / "clone" / "results" / "kept") == contents(runs[0].folder.parents[1])


def test_what_two_branches_kept_is_merged(paths, git):
    """A run each and a study each, in either order; until then nothing is read."""
    planned = plan.plan_experiments(params(), paths)["p"]["one"].runs
    first, second, third = (Run(paths.kept("p") / run.id, run.config, run.data, run.code) for run in planned[:3])
    finish(first)
    git("add", ".")
    git("commit", "-qm", "base")
    for branch, run in (("left", second), ("right", third)):
        git("checkout", "-qb", branch, "main")
        finish(run, ROWS.replace("0.25", "0.3"))
        add_study(run)
        git("commit", "-qam", branch)
        git("add", ".")
        git("commit", "-q", "--amend", "--no-edit")
    finish(second, ROWS.replace("0.25", "0.3"))
    add_study(second)
    whole = contents(first.folder.parents[1])
    for branch, other in (("left", "right"), ("right", "left")):
        git("checkout", "-qf", branch)
        git("reset", "-q", "--hard", branch)
        git("merge", "-q", other, "-m", "both")
        with pytest.raises(
            UserError, match=r"SHA256SUMS: line \d: two branches kept results in .*; `fedrepro keep` merges them"
        ):
            kept.load_runs(first.folder.parent)
        kept.recover(first.folder.parents[1])
        assert contents(first.folder.parents[1]) == whole
        git("reset", "-q", "--hard", "HEAD~1") if branch == "left" else None
    for run in (second, third):
        unshelve(run)
    kept.recover(first.folder.parents[1])
    assert list(kept.load_runs(first.folder.parent)) == [first.id]


def test_branches_with_other_columns_are_merged(paths, git):
    """One kept a measure that the other does not have, so that all lines of metrics.csv differ; both a round's seconds."""
    planned = plan.plan_experiments(params(), paths)["p"]["one"].runs
    first, second, third = (Run(paths.kept("p") / run.id, run.config, run.data, run.code) for run in planned[:3])
    folder, more = first.folder.parents[1], ROWS.replace("\n", ",0.5\n").replace("accuracy,0.5", "accuracy,test_loss", 1)
    finish(first)
    git("add", ".")
    git("commit", "-qm", "base")
    for branch, run, rows in (("left", second, more), ("right", third, ROWS)):
        git("checkout", "-qb", branch, "main")
        finish(run, rows)
        git("commit", "-qam", branch)
    finish(second, more)
    whole = contents(folder)
    git("checkout", "-qf", "left")
    git("merge", "-q", "right", "-m", "both")
    kept.recover(folder)
    assert contents(folder) == whole


def test_the_same_run_from_two_branches_is_refused(runs):
    """Trained twice, to other numbers."""
    folder = runs[0].folder.parents[1]
    path = folder / "p" / RUNS
    path.write_text(path.read_text() + path.read_text().splitlines()[0].replace('"weights": 7', '"weights": 8') + "\n")
    (folder / SUMS).write_text((folder / SUMS).read_text() + f"{'0' * 64}  p/{RUNS}\n")
    with pytest.raises(UserError, match=rf"runs\.jsonl: line 3: differs from another of {runs[0].id}; leave one of them"):
        kept.recover(folder)


# ---- killed


class Killed(BaseException):
    """In the place of SIGKILL."""


def test_a_killed_save_is_completed_or_taken_back(runs, monkeypatch, tmp_path):
    """At each step that changes a file."""
    folder = runs[0].folder.parents[1]
    before, steps, ends = contents(folder), 0, []
    papers = kept.load_all(folder)
    papers["p"].remove(runs[0].id)
    papers["q"] = kept.KeptPaper()
    papers["q"].add(integrity.load_record(runs[1].folder), integrity.load_metrics(runs[1].folder))
    kept.save(tmp_path / "whole", papers)
    after = contents(tmp_path / "whole") | {f"p/{STUDIES}": b"run,study,row\n"}
    while True:
        left = steps

        def counted(function):
            def step(*given, **options):
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return function(*given, **options)

            return step

        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 2**22 + 1)  # no process has this number, now or later
            for name in ("write_text", "replace", "mkdir", "unlink"):
                patched.setattr(Path, name, counted(getattr(Path, name)))
            try:
                kept.save(folder, papers)
            except Killed:
                killed = True
            else:
                killed = False
        kept.recover(folder)
        found = contents(folder)
        ends.append(
            {name: text for name, text in found.items() if name != SUMS} == {n: t for n, t in after.items() if n != SUMS}
        )
        assert ends[-1] or found == before, f"step {steps}"
        assert kept.checksums(folder).keys() == found.keys() - {SUMS}
        shutil.rmtree(folder)
        for name, content in before.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        if not killed:
            break
        steps += 1
    assert steps > 10 and ends == sorted(ends) and True in ends[:-1]
