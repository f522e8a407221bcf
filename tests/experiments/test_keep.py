"""`keep` and what it leaves: whole or absent, listed in SHA256SUMS, and refused where a file is another."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fedrepro.cli import main
from fedrepro.core import files, provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import json_text, read_json, write_json
from fedrepro.experiments import keep
from fedrepro.experiments.plan import plan
from fedrepro.runs import integrity
from fedrepro.runs.gather import Gathering, gather
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import FILES, Run
from support.experiments import finish, listed, params

ROOT = Path(__file__).parents[2]
ROWS = "round,test_accuracy\n0,0.1\n1,0.25\n2,0.5\n3,0.75\n"
NOTE = {"paper": "p", "experiment": "one", "compare": "full", "scale": "paper", "skipped": None, "series": {"A": {}}}


@pytest.fixture(autouse=True)
def history(monkeypatch) -> None:
    """A history in which every code has its commit, of the same name; all without a mirror."""
    monkeypatch.setattr(provenance, "committed_digest", lambda commit, *executed: commit)
    monkeypatch.setattr(provenance, "commit_date", lambda commit: "2020-02-02")
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)


def trained(run: Run, text: str = ROWS) -> Run:
    """As it leaves its folder, with all that a report asks for."""
    finish(run, text)
    told = {"device": "cpu", "executor": "sequential", "hardware": "a chip", "torch": "2.8"}
    write_json(run.folder / "environment.json", {"commit": run.code} | told)
    summary = read_json(run.summary) | {"status": "finished", "rounds": 3, "final": {"test_accuracy": 0.75}}
    write_json(run.summary, summary)
    return run


def study(run: Run, text: str = "unit,x\n1,2\n") -> None:
    """Of one finished run, as nothing asks for it."""
    (run.folder / "tsne-1.csv").write_text(text)
    write_json(run.folder / "tsne-1.json", {"run": run.id, "table": files.digest(text), "code": "c", "settings": {}})


def item(paths: Paths):
    return plan(params(), paths)["p"]["one"]


def kept(paths: Paths) -> Path:
    return paths.results / "kept"


def gathered(folder: Path, out: Path) -> list[str]:
    """What reports read of it."""
    gather(Gathering(NOTE, {"A": [folder]}), out)
    return (out / "one.csv").read_text(encoding="utf-8").splitlines()[1:]


@pytest.fixture
def shelf(paths) -> Path:
    """The folder of a kept run."""
    trained(item(paths).runs[0])
    (folder,) = keep.keep([item(paths)], paths)
    return folder


def test_sums_are_what_sha256sum_checks(shelf, paths):
    lines = (kept(paths) / integrity.SUMS).read_text(encoding="utf-8").splitlines()
    assert [line[66:] for line in lines] == sorted(f"p/{shelf.name}/{name}" for name in FILES)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", integrity.SUMS], cwd=kept(paths), check=True)


def test_nothing_is_kept_behind_a_link(paths, tmp_path):
    """Which `git` may have brought: what was left there by a killed process would go, too."""
    trained(item(paths).runs[0])
    for place in (kept(paths), kept(paths) / "p"):
        precious = tmp_path / "precious" / f".x.{files.MACHINE}-4194303.part"
        precious.parent.mkdir(exist_ok=True)
        precious.touch()
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(precious.parent)
        with pytest.raises(UserError, match=f"{place}: a link"):
            keep.settle(paths.results)
        assert list(precious.parent.iterdir()) == [precious]
        place.unlink()


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def unsealed(path: Path, **changes) -> None:
    """Changed by somebody who knows of seal and digest."""
    values = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("seal", "metrics")} | changes
    path.write_text(json.dumps(values))


def better(shelf: Path) -> None:
    edited(shelf / "metrics.csv", "0.75", "0.999")
    unsealed(shelf / "summary.json", final={"test_accuracy": 0.999})


CHANGES = {
    "a row": ("metrics.csv", lambda shelf: (edited(shelf / "metrics.csv", "0.25", "0.7"), unsealed(shelf / "summary.json"))),
    "the end": ("metrics.csv", better),
    "status": ("summary.json", lambda shelf: unsealed(shelf / "summary.json", status="diverged at round 3")),
    "bytes": ("summary.json", lambda shelf: unsealed(shelf / "summary.json", bytes_down=1)),
    "hardware": ("environment.json", lambda shelf: unsealed(shelf / "environment.json", hardware="another")),
    "commit": ("environment.json", lambda shelf: unsealed(shelf / "environment.json", commit="0123456789")),
    "title": ("config.json", lambda shelf: edited(shelf / "config.json", "some data", "other data")),
    "a pipe": ("metrics.csv", lambda shelf: ((shelf / "metrics.csv").unlink(), os.mkfifo(shelf / "metrics.csv"))),
    "a folder": ("summary.json", lambda shelf: ((shelf / "summary.json").unlink(), (shelf / "summary.json").mkdir())),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_kept_file_that_is_another_is_named(change, shelf, paths, tmp_path):
    """Whatever of seals and digests in the files was changed with it."""
    name, work = CHANGES[change]
    assert len(gathered(shelf, tmp_path / "out")) == 4
    work(shelf)
    with pytest.raises(
        UserError, match=rf"/(summary.json|{name}): (changed since it was kept|not a file); git restore .*{shelf.name}"
    ):
        gathered(shelf, tmp_path / "out")
    if name != "environment.json":  # a plan does not count the run as finished either
        with pytest.raises(UserError, match=rf"/(summary.json|{name}): .*; git restore"):
            item(paths)


def test_a_kept_file_that_is_gone_is_missed(shelf, paths):
    (shelf / "metrics.csv").unlink()
    with pytest.raises(
        UserError, match=r"metrics\.csv: listed in .*SHA256SUMS, but not there; git restore .*metrics\.csv brings"
    ):
        item(paths)
    shutil.rmtree(shelf)
    with pytest.raises(UserError, match=r"config\.json: listed in .*, but not there \(nor are 4 more\); git restore .*kept/p "):
        item(paths)


def test_a_kept_file_that_is_not_listed_is_refused(shelf, paths):
    """As where the list is lost, or a folder was copied by hand."""
    (kept(paths) / integrity.SUMS).unlink()
    with pytest.raises(UserError, match=rf"config\.json: not listed in .*SHA256SUMS; .* or delete .*{shelf.name}"):
        item(paths)


def test_a_summary_of_other_data_or_code_is_refused(paths):
    """Where nothing lists it, too."""
    run = trained(item(paths).runs[0])
    whole = read_json(run.summary)
    for key in ("data", "code"):
        write_json(run.summary, whole | {key: "other"})
        with pytest.raises(UserError, match=rf"summary\.json: {key}.*: not as in config\.json; delete"):
            integrity.metrics(run.folder)


def test_line_ends_do_not_count(shelf, paths, tmp_path):
    """As git writes them where `core.autocrlf` is true; studies, too."""
    for path in (*shelf.iterdir(), kept(paths) / integrity.SUMS):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert item(paths).runs[0].folder == shelf and len(gathered(shelf, tmp_path / "out")) == 4
    run = trained(item(paths).runs[1])
    study(run)
    (run.folder / "tsne-1.csv").write_bytes(b"unit,x\r\n1,2\r\n")
    assert integrity.table(run.folder / "tsne-1.csv") == [{"unit": "1", "x": "2"}]


def test_a_clone_has_the_bytes_that_were_committed(shelf, paths, tmp_path):
    """Whatever line ends git is told to write."""
    repository, clone = tmp_path / "repository", tmp_path / "clone"
    shutil.copytree(kept(paths), repository / "results" / "kept")
    shutil.copy(ROOT / ".gitattributes", repository)
    (repository / "params.yaml").write_bytes(b"scale: quick\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    subprocess.run(["git", "clone", "-q", "-c", "core.autocrlf=true", str(repository), str(clone)], check=True)
    for path in (*repository.glob("results/kept/**/*.*"), repository / "params.yaml"):
        assert (clone / path.relative_to(repository)).read_bytes() == path.read_bytes()


# ---- two branches


def branches(paths: Paths) -> tuple[str, str]:
    """The lists of two branches, each of which keeps one run; both runs are there."""
    texts = []
    for run in item(paths).runs[:2]:
        trained(run)
        keep.keep([item(paths)], paths)
        texts.append((kept(paths) / integrity.SUMS).read_text(encoding="utf-8"))
        shutil.rmtree(paths.runs("p"))
    first, both = texts
    return first, "".join(line for line in both.splitlines(keepends=True) if line not in first)


def test_a_conflict_of_git_is_told_and_resolved(paths):
    first, second = branches(paths)
    path, whole = kept(paths) / integrity.SUMS, (kept(paths) / integrity.SUMS).read_text(encoding="utf-8")
    path.write_text(f"<<<<<<< ours\n{first}=======\n{second}>>>>>>> theirs\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"SHA256SUMS: line 1: a conflict that git left; `fedrepro keep` takes the lines of both"
    ):
        item(paths)
    keep.settle(paths.results)
    assert path.read_text(encoding="utf-8") == whole
    assert len([run for run in item(paths).runs if run.folder.is_relative_to(kept(paths))]) == 2


def test_lines_of_both_branches_in_any_order_are_read_and_sorted(paths):
    """As git's `merge=union` leaves them."""
    first, second = branches(paths)
    path, whole = kept(paths) / integrity.SUMS, (kept(paths) / integrity.SUMS).read_text(encoding="utf-8")
    for text in (first + second, second + first):
        path.write_text(text, encoding="utf-8")
        assert item(paths).runs[0].summary.exists()
        keep.settle(paths.results)
        assert path.read_text(encoding="utf-8") == whole


def test_of_two_sums_that_of_the_file_stays(shelf, paths):
    path = kept(paths) / integrity.SUMS
    whole = path.read_text(encoding="utf-8")
    for text in (f"{'0' * 64}  p/{shelf.name}/timing.json\n{whole}", f"{whole}{'0' * 64}  p/{shelf.name}/timing.json\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"another sha256 of p/.*/timing\.json; `fedrepro keep` leaves that of the file"):
            item(paths)
        keep.settle(paths.results)
        assert path.read_text(encoding="utf-8") == whole


@pytest.mark.parametrize("line", ["", "x", f"{'0' * 63}  p/r/a", f"{'0' * 64} p/r/a", f"{'0' * 64}  ", "\0"])
def test_any_other_line_is_refused(line, shelf, paths):
    with (kept(paths) / integrity.SUMS).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    for work in (item, lambda paths: keep.settle(paths.results)):
        with pytest.raises(UserError, match="SHA256SUMS: line 6: not a sha256 and the name of a file; git restore"):
            work(paths)


def test_settling_does_not_bring_back_what_is_lost(shelf, paths):
    """Nor lists what nobody kept."""
    (shelf / "timing.json").unlink()
    shutil.copytree(shelf, shelf.with_name("copied"))
    before = (kept(paths) / integrity.SUMS).read_text(encoding="utf-8")
    keep.settle(paths.results)
    assert (kept(paths) / integrity.SUMS).read_text(encoding="utf-8") == before


# ---- killed


class Killed(BaseException):
    """In the place of SIGKILL."""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def prepared(paths: Paths) -> None:
    """One run that is kept alone, one in the place of an older, one with a study by now."""
    first, second, third, _ = item(paths).runs
    trained(first)
    older = Run(paths.kept("p"), second.config, second.data, "01de700000")
    trained(Run(older.folder / f"old-{integrity.key(older.record())}", older.config, older.data, older.code))
    trained(Run(paths.kept("p") / third.id, third.config, third.data, third.code))
    for model in kept(paths).glob("*/*/model.safetensors"):
        model.unlink()
    listed(kept(paths))
    trained(second)
    study(trained(third))


def undisturbed(paths: Paths, monkeypatch) -> None:
    """What `fedrepro keep` does, of settings that ask for the study."""
    keep.settle(paths.results)
    chosen = item(paths)
    note = paths.runs("p") / chosen.runs[2].id / "tsne-1.json"
    with monkeypatch.context() as patched:
        done = (paths.kept("p") / note.parent.name / note.name).exists()
        patched.setattr(keep, "_studied", lambda *_: [] if done else [(None, note)])
        patched.setattr(keep, "_vouched_study", lambda *_: {})
        keep.keep([chosen], paths)


def test_a_killed_keep_leaves_runs_whole_or_absent(paths, tmp_path, monkeypatch):
    """At each step that changes a file; the next one ends as if nothing had been."""
    prepared(paths)
    start = tmp_path / "start"
    shutil.copytree(paths.results, start)
    undisturbed(paths, monkeypatch)
    whole = contents(kept(paths))
    assert len(integrity.sums(kept(paths))) == len(whole) - 1 == 3 * len(FILES) + 2
    steps = 0
    while True:
        shutil.rmtree(paths.results)
        shutil.copytree(start, paths.results)
        left = [steps]

        def counted(function, left=left):
            def step(*given, **options):
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return function(*given, **options)

            return step

        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 2**22 + 1)  # no process has this number, now or later
            for name in ("write_bytes", "write_text", "rename", "replace", "mkdir"):
                patched.setattr(Path, name, counted(getattr(Path, name)))
            patched.setattr(shutil, "rmtree", counted(shutil.rmtree))
            patched.setattr(Path, "unlink", counted(Path.unlink))
            try:
                undisturbed(paths, monkeypatch)
            except Killed:
                killed = True
            else:
                killed = False
        for folder in paths.kept("p").iterdir():
            assert {path.name for path in folder.iterdir()} >= set(FILES), f"step {steps}: {folder}"
        undisturbed(paths, monkeypatch)
        assert contents(kept(paths)) == whole, f"step {steps}"
        if not killed:
            break
        steps += 1
    assert steps > 20


# ---- what a run from elsewhere says


@pytest.mark.parametrize("named", ["--output=precious", "", "HEAD", None, 7, {}])
def test_what_is_no_commit_reaches_no_git(named, paths, tmp_path, monkeypatch):
    """`keep` and reports refuse the file that says it, a study's note likewise."""
    monkeypatch.undo()
    monkeypatch.setattr(provenance, "_printed", lambda *command, env: pytest.fail(f"asked: {command}"))
    run = trained(item(paths).runs[0])
    unsealed(run.folder / "environment.json", commit=named)
    for work in (lambda: keep.keep([item(paths)], paths), lambda: gathered(run.folder, tmp_path / "out")):
        with pytest.raises(UserError, match=r"environment\.json: commit: .* names no commit; delete .* to train the run anew"):
            work()
    study(run)
    note = run.folder / "tsne-1.json"
    note.write_text(json_text(json.loads(note.read_text()) | {"environment": {"commit": named}}))
    unsealed(note)
    with pytest.raises(UserError, match=r"tsne-1\.json: commit: .* names no commit; delete .* to make the study anew"):
        keep._vouched_study(note, None)


def test_keep_passes_on_the_words_of_git(paths, monkeypatch):
    """Where it cannot read the checkout, no other checkout helps."""
    run = trained(item(paths).runs[0])
    unsealed(run.folder / "environment.json", commit="unknown")
    monkeypatch.setattr(provenance, "committed_digest", lambda *_: None)
    monkeypatch.setattr(provenance, "commit_date", lambda *_: None)
    monkeypatch.setattr(provenance, "head", lambda: (None, "fatal: detected dubious ownership in repository"))
    with pytest.raises(
        UserError, match="names commit unknown, whose code cannot be read here; git: fatal: detected dubious owner"
    ):
        keep.keep([item(paths)], paths)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_keep_refuses_what_is_no_file(name, make, paths):
    """And does not wait for a pipe."""
    run = trained(item(paths).runs[0])
    (run.folder / name).unlink()
    make(run.folder / name)
    with pytest.raises(UserError, match=rf"{name}: not a file; delete .* to train the run anew"):
        keep.keep([item(paths)], paths)
    assert not kept(paths).exists()


def test_the_command_settles_before_it_plans(paths, tmp_path, monkeypatch, capsys):
    """A plan would refuse what is to be settled."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    path = Path("results/kept") / integrity.SUMS
    path.parent.mkdir(parents=True)
    path.write_text("<<<<<<< ours\n=======\n>>>>>>> theirs\n")
    assert main.main(["list"]) == 2 and "a conflict that git left" in capsys.readouterr().err
    assert main.main(["keep"]) == 0 and path.read_text() == ""
