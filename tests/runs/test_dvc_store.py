"""Finished runs that are handed to DVC and taken back."""

import os
import shutil
from pathlib import Path

import pytest

from fedrepro.cli import main
from fedrepro.core import files
from fedrepro.runs import dvc_store, records
from support.checkout import ROOT

RECORD = {"config": {"lr": 0.1}, "data": "d", "code": "c"}


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    runs, kept = tmp_path / "runs" / "p", tmp_path / "stored" / "p"
    runs.mkdir(parents=True)
    return runs, kept


def a_run(
    folder: Path,
    finished: bool = True,
    accuracy: float = 0.5,
    chip: str = "one",
    name: str = "r",
    **changes,
) -> Path:
    """A run whose folder is named as its settings want it."""
    run = folder / f"{name}-{records.run_hash(RECORD)}"
    (run / "snapshots").mkdir(parents=True)
    (run / "snapshots" / "3").write_text("weights")
    (run / "log.txt").write_text("finished")
    environment = dict.fromkeys(("device", "executor", "torch"), "") | {
        "commit": "abcdef0",
        "hardware": chip,
    }
    begun = RECORD | {"dataset": "d", "environment": environment}
    records.write(run / "begun.json", begun | {"round_seconds": []})
    if finished:
        outcome = {
            "status": "finished",
            "rounds": 1,
            "weights": 1,
            "bytes_down": 1,
            "bytes_up": 1,
            "seconds": 1,
        }
        columns = {"round": [1], "test_accuracy": [accuracy]}
        outcome |= {"metrics": records.digest(columns), "columns": columns}
        records.write(run / "record.json", {"run": run.name} | begun | outcome | changes)
    return run


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_there_and_back(folders):
    runs, kept = folders
    run = a_run(runs)
    before = content(runs)
    assert dvc_store.store(runs, kept) == [kept / run.name] and content(kept) == before
    # no bytes are copied where links can be made
    assert os.path.samefile(run / "begun.json", kept / run.name / "begun.json")
    assert not os.path.samefile(run / "log.txt", kept / run.name / "log.txt")  # it is written on
    assert dvc_store.store(runs, kept) == dvc_store.restore(kept, runs) == []
    shutil.rmtree(run)
    assert dvc_store.restore(kept, runs) == [run] and content(runs) == before


@pytest.mark.parametrize("last", ["snapshots/3", "tsne-1.json"])
def test_what_is_cut_off_is_no_finished_run(last, folders, monkeypatch):
    """Its summary comes last; the same command makes it whole."""
    runs, kept = folders
    run, copy = a_run(runs), shutil.copy2
    a_study(run, "tsne-1")

    def refused(*_):
        raise OSError("another disk")

    def full(source, target):
        if source == run / last:
            raise OSError("no space left")
        return copy(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(dvc_store.os, "link", refused)
        patched.setattr(dvc_store.shutil, "copy2", full)
        with pytest.raises(OSError, match="no space left"):
            dvc_store.store(runs, kept)
    assert (kept / run.name / "begun.json").exists() and not (
        kept / run.name / "record.json"
    ).exists()
    assert dvc_store.store(runs, kept) == [kept / run.name] and content(kept) == content(runs)


def test_what_is_unfinished_stays(folders):
    """It goes on as it is, though DVC brought its end; what was left before a first checkpoint does
    not."""
    runs, kept = folders
    run = a_run(runs, finished=False)
    assert dvc_store.store(runs, kept) == [] and list(kept.iterdir()) == []
    whole = a_run(kept)
    for name in (".record.json.1-2.part", "tsne-1.begun"):
        (whole / name).write_text("half")
    (run / "checkpoint.safetensors").write_text("state")
    assert dvc_store.restore(kept, runs) == []
    (run / "checkpoint.safetensors").unlink()
    with files.single_process(run / "log.txt", wait=False):
        assert dvc_store.restore(kept, runs) == []
    assert dvc_store.restore(kept, runs) == [run]
    assert content(run) == {
        name: found
        for name, found in content(whole).items()
        if not name.endswith((".part", ".begun"))
    }


def a_study(run: Path, name: str) -> Path:
    study = {
        "run": run.name,
        "settings": {},
        "code": "c",
        "environment": {"commit": "abcdef0"},
        "columns": {"round": [1]},
    }
    records.write(run / f"{name}.json", study)
    return run / f"{name}.json"


def test_studies_that_came_later(folders):
    runs, kept = folders
    run = a_run(runs)
    dvc_store.store(runs, kept)
    a_study(run, "tsne-1")
    assert dvc_store.store(runs, kept) == [kept / run.name] and content(kept) == content(runs)
    a_study(kept / run.name, "tsne-2")
    assert dvc_store.restore(kept, runs) == [run] and content(kept) == content(runs)


@pytest.mark.parametrize("other", [{"accuracy": 0.6}, {"chip": "another"}], ids=str)
def test_another_training_of_the_same_run(other, folders, caplog):
    """On another processor its last bits are others. Nothing is mixed; what is here is stored in
    the other's place."""
    runs, kept = folders
    run = a_run(runs)
    dvc_store.store(runs, kept)
    a_study(kept / run.name, "tsne-1")
    shutil.rmtree(run)
    a_run(runs, **other)
    before = content(runs)
    assert dvc_store.restore(kept, runs) == [] and content(runs) == before
    assert f"{run}: left alone, of another training than {kept / run.name}" in caplog.text
    assert dvc_store.store(runs, kept) == [kept / run.name] and content(kept) == before


def test_how_long_it_took_makes_no_other_training(folders):
    runs, kept = folders
    run = a_run(runs)
    dvc_store.store(runs, kept)
    records.write(run / "record.json", records.load(run) | {"seconds": 2})
    a_study(kept / run.name, "tsne-1")
    assert dvc_store.store(runs, kept) == [] and dvc_store.restore(kept, runs) == [run]


@pytest.mark.parametrize("name", ["record.json", "tsne-1.json"])
def test_what_is_damaged_goes_nowhere(folders, caplog, name):
    """Neither way; trained anew, it takes the place of what is damaged."""
    runs, kept = folders
    run = a_run(runs)
    a_study(run, "tsne-1")
    whole = content(runs)
    dvc_store.store(runs, kept)
    shutil.rmtree(run)
    path = kept / run.name / name
    path.write_text(path.read_text().replace("1", "7"))
    assert (
        dvc_store.restore(kept, runs) == []
        and not run.exists()
        and f"left out: {path}: " in caplog.text
    )
    a_study(a_run(runs), "tsne-1")
    if name == "tsne-1.json":  # of a run that is the same, what DVC has is asked once more
        shutil.rmtree(kept / run.name)
    assert dvc_store.store(runs, kept) == [kept / run.name] and content(kept) == whole
    (run / name).unlink()  # which leaves the other link alone
    (run / name).write_text("damaged")
    assert dvc_store.store(runs, kept) == [] and content(kept) == whole


def enlarge(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


@pytest.mark.parametrize(
    "values", [{"dataset": 7}, {"status": 7}, {"rounds": "many"}, {"weights": []}], ids=str
)
def test_a_record_of_other_types_goes_nowhere(values, folders, caplog):
    run = a_run(folders[0], **values)
    assert dvc_store.store(*folders) == []
    assert (
        f"left out: {run / 'record.json'}: {list(values)[-1]}: Input should be a valid "
        in caplog.text
        and "to train the run again" in caplog.text
    )


@pytest.mark.parametrize("name", ["record.json", "tsne-1.json"])
@pytest.mark.parametrize("place", ["a pipe", "a folder", "a large file"])
def test_what_is_no_file_goes_nowhere(name, place, folders, caplog):
    """Neither from here, nor where another's twin is whole; a pipe is not waited for."""
    runs, kept = folders
    for shelf, work in ((runs, dvc_store.store), (kept, lambda *_: dvc_store.restore(kept, runs))):
        run = a_run(shelf)
        path = a_study(run, "tsne-1").with_name(name)
        path.unlink()
        places = {"a pipe": os.mkfifo, "a folder": Path.mkdir, "a large file": enlarge}
        places[place](path)
        other = kept if shelf == runs else runs
        assert work(runs, kept) == [] and not (other / run.name).exists()
        reasons = {"a large file": f"{3 << 30} bytes, of which at most "}
        assert (
            f"left out: {path}: {reasons.get(place, 'not a file; ')}" in caplog.text
            or name == "record.json"
        )
        twin = a_run(other)
        a_study(twin, "tsne-1")
        assert work(runs, kept) == []
        shutil.rmtree(run)
        shutil.rmtree(twin)


@pytest.mark.parametrize("name", ["", "snapshots", "begun.json"])
@pytest.mark.parametrize("side", ["source", "twin"])
def test_links_are_not_followed(side, name, folders, tmp_path, caplog):
    """Neither read, nor written or deleted behind, whichever way runs are given."""
    precious = a_run(tmp_path / "precious")
    whole = content(tmp_path / "precious")
    for shelf, other, work in (
        (0, 1, dvc_store.store),
        (1, 0, lambda runs, kept: dvc_store.restore(kept, runs)),
    ):
        run, twin = a_run(folders[shelf]), folders[other] / precious.name
        if side == "twin":
            twin.mkdir(parents=True)
        path = (run if side == "source" else twin) / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(precious / name if (precious / name).exists() else precious)
        assert (
            work(*folders) == []
            and f"{path}: a link; " in caplog.text
            and content(tmp_path / "precious") == whole
        )
        for folder in (run, twin):
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)


def test_folders_that_cannot_be(tmp_path, monkeypatch, capsys):
    """One message each."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "workflow/papers", tmp_path / "workflow/papers")
    monkeypatch.chdir(tmp_path)
    Path("one").symlink_to("other")
    Path("other").symlink_to("one")
    Path("file").touch()
    for results in ("/dev/null", "one", "x" * 500, "file"):
        assert main.main(["store", "--results", results]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: {results}") and line.endswith(
            "; choose another path, or move away what is in its place"
        )


def test_commands(tmp_path, monkeypatch, capsys):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "workflow/papers", tmp_path / "workflow/papers")
    monkeypatch.chdir(tmp_path)
    run = a_run(Path("results/runs/fedmmd"))
    assert (
        main.main(["store"]) == 0
        and capsys.readouterr().out == f"results/stored/fedmmd/runs/{run.name}\n"
    )
    shutil.rmtree(run)
    assert main.main(["restore", "--paper", "fedcl"]) == 0 and capsys.readouterr().out == ""
    assert (
        main.main(["restore", "--paper", "fedmmd"]) == 0 and capsys.readouterr().out == f"{run}\n"
    )
    assert (
        main.main(["store", "--paper", "fedmm"]) == 2
        and "choose from fedmmd" in capsys.readouterr().err
    )


@pytest.mark.parametrize("command", ["store", "restore"])
def test_one_process_at_a_time_copies(command, tmp_path, monkeypatch):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "workflow/papers", tmp_path / "workflow/papers")
    monkeypatch.chdir(tmp_path)
    held = []
    monkeypatch.setattr(
        dvc_store,
        command,
        lambda *_: held.append(files.is_locked(Path("results/.stored.lock"))) or [],
    )
    assert main.main([command]) == 0 and all(held) and held
