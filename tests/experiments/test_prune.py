"""Pruning, and what it spares, such as runs that the settings may name but whose data are not
here."""

import logging
import os
import shutil
from dataclasses import replace

import pytest

from fedrepro.config.types import Choice
from fedrepro.core.errors import UserError
from fedrepro.core.files import single_process
from fedrepro.experiments import prune
from fedrepro.experiments.plan import plan_experiments
from fedrepro.experiments.run_lookup import DatasetIdentities
from fedrepro.runs.paths import Paths
from fedrepro.runs.records import run_hash
from fedrepro.runs.run import Run
from support.experiments import finish, one, params

ELSEWHERE = {
    "aptos": {"dataset": "aptos", "model": {"name": "cifar_cnn"}},  # which the user brings
    "mnist": {"dataset": "mnist"},  # of a mirror that does not answer
}


def lie(run: Run, paths: Paths, data: str, code: str) -> Run:
    """Finish a run as if it had been trained on some data, with its partition."""
    run = replace(run, data=data, code=code)
    config = run.config
    code = run_hash(run.config_record())
    name = f"{config.dataset.name}-{config.algorithm.name}-s{config.seed}-{code}"
    drawn = paths.partition(run.config, data)
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text("")
    return finish(replace(run, folder=paths.runs("p") / name))


@pytest.mark.parametrize(
    ("name", "mirror"), [("aptos", "absent"), ("mnist", "absent"), ("mnist", "")]
)
def test_prune_spares_runs_whose_data_are_not_here(
    name, mirror, paths, tmp_path, caplog, monkeypatch
):
    """Also without a mirror, when the settings could only mean the official release."""
    monkeypatch.setenv("FEDREPRO_DATA_MIRROR", mirror and str(tmp_path / mirror))
    settings = one(**ELSEWHERE[name])
    named = plan_experiments(settings, paths, data=DatasetIdentities(settings, paths, strict=True))[
        "p"
    ]["one"].runs
    spared = [
        lie(named[0], paths, "theirs", "older"),
        lie(named[1], paths, "others", named[1].code),
    ]
    spared[1].summary.unlink()  # it has only begun
    other = lie(
        replace(named[0], config=named[0].config.model_copy(update={"lr": 9.0, "seed": 7})),
        paths,
        "theirs",
        "older",
    )
    with caplog.at_level(logging.WARNING):
        found = prune.unused(settings, paths)
    assert found == sorted([other.folder, paths.partition(other.config, "theirs")])
    assert all(
        (run.folder / "begun.json").exists() and paths.partition(run.config, run.data).exists()
        for run in spared
    )
    assert (
        f"spared 2 runs that the settings may name: while {name} is not prepared here"
        in caplog.text
    )


def test_prune_spares_runs_whose_pictures_are_on_a_disk_that_is_not_here(paths, caplog):
    """Without the pictures the experiment has no plan, so that its runs have no names."""
    named = plan_experiments(one(), paths)["p"]["one"].runs[0]
    settings = one(dataset={"name": "folders", "path": "elsewhere"})
    theirs = named.config.model_copy(update={"dataset": Choice(name="folders", path="elsewhere")})
    spared = lie(replace(named, config=theirs), paths, "theirs", named.code)
    with caplog.at_level(logging.WARNING):
        assert prune.unused(settings, paths) == []
    assert (
        spared.summary.exists()
        and "spared 1 run that the settings may name: while folders" in caplog.text
    )
    assert spared.folder in prune.unused(one(), paths)


def test_prune_spares_runs_in_training(paths, caplog):
    older = replace(plan_experiments(one(), paths)["p"]["one"].runs[0], code="older")
    stale = finish(
        replace(
            older, folder=paths.runs("p") / f"digits-fedavg-s0-{run_hash(older.config_record())}"
        )
    )
    half = paths.data / "partitions" / ".digits.npz.abc-1.part"
    half.parent.mkdir(parents=True)
    half.write_text("")
    with single_process(stale.log, wait=False):
        with (
            pytest.raises(UserError, match="another process is at work in it"),
            single_process(stale.log, wait=False),
        ):
            pass
        assert (
            prune.unused(one(), paths, other_code=True) == []
            and f"spared {stale.folder}" in caplog.text
        )
    assert prune.unused(one(), paths, other_code=True) == [stale.folder] and half.exists()


def test_prune_spares_finished_runs_of_earlier_code(paths, caplog):
    """Today's code does not reuse them, but their settings and data are named, and they may have
    cost weeks. Unfinished and kept ones are listed."""
    named, other, today, _ = plan_experiments(one(), paths)["p"]["one"].runs
    finish(today).summary.unlink()  # begun by today's code
    done, begun = (lie(run, paths, run.data, "older") for run in (named, other))
    begun.summary.unlink()
    with caplog.at_level(logging.WARNING):
        assert prune.unused(one().model_copy(update={"report_only": True}), paths) == [begun.folder]
    assert (
        "spared 1 finished run of earlier code with settings that are named: --other-code lists "
        "them too" in caplog.text
    )
    shutil.rmtree(begun.folder)
    assert prune.unused(one(), paths, other_code=True) == [done.folder]
    finish(replace(done, folder=paths.kept("p") / done.id))
    assert prune.unused(one(), paths) == [done.folder]


def test_prune_spares_runs_beside_kept_ones_of_other_data(paths):
    """The kept ones answer, but these are of the data here, and may have cost weeks."""
    runs = plan_experiments(one(), paths)["p"]["one"].runs
    finish(runs[0])
    for run in runs:
        other = replace(run, data="other pixels")
        finish(replace(other, folder=paths.kept("p") / f"other-{run_hash(other.config_record())}"))
    assert all(run.is_kept for run in plan_experiments(one(), paths)["p"]["one"].runs)
    assert prune.unused(one(), paths, other_code=True) == []


def test_prune_spares_runs_that_only_dvc_has(paths, monkeypatch):
    """A finished run of earlier code, and one of other data while the named ones are not here."""
    monkeypatch.setenv("FEDREPRO_DATA_MIRROR", "")
    for settings, data in ((one(), None), (one(**ELSEWHERE["mnist"]), "theirs")):
        named = plan_experiments(
            settings, paths, data=DatasetIdentities(settings, paths, strict=True)
        )["p"]["one"].runs[0]
        older = lie(named, paths, data or named.data, "older")
        shutil.copytree(older.folder, paths.stored("p") / older.id)
        shutil.rmtree(older.folder)
        assert prune.unused(settings, paths) == []
        shutil.rmtree(paths.stored("p"))
        paths.partition(older.config, older.data).unlink()


def test_prune_spares_studies_and_snapshots_of_spared_runs(paths):
    """Two runs of earlier code with the same settings, with a study and a snapshot."""
    named = plan_experiments(one(), paths)["p"]["one"].runs[0]
    found = [lie(named, paths, named.data, code) for code in ("older", "oldest")]
    for name in ("activations-0123456789.json", "snapshots/round-1.safetensors"):
        path = found[0].folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", encoding="utf-8")
    twin = paths.stored("p") / found[0].id  # which DVC has too
    shutil.copytree(found[0].folder, twin)
    assert prune.unused(one(), paths) == []
    assert prune.unused(one(), paths, other_code=True) == sorted(
        [*(run.folder for run in found), twin]
    )


@pytest.fixture
def precious(paths, tmp_path):
    """Make a run that no settings name, on another disk."""
    run = plan_experiments(one(rounds=7), paths)["p"]["one"].runs[0]
    run = finish(replace(run, folder=tmp_path / "elsewhere" / run.id))
    for name in ("round-1.safetensors", "activations-0123456789.json"):
        (run.folder / name).write_text("mine", encoding="utf-8")
    before = sorted(run.folder.iterdir())
    yield run.folder
    assert sorted(run.folder.iterdir()) == before


@pytest.mark.parametrize(
    "place",
    ["runs", "stored", "runs/p", "runs/other", "stored/other", "stored/p/runs", "partitions"],
)
def test_prune_follows_no_link_out_of_its_folders(place, paths, precious, caplog):
    link = (paths.data if place == "partitions" else paths.results) / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(precious.parent)
    with caplog.at_level(logging.WARNING):
        assert prune.unused(params(), paths) == []
    assert (
        link.is_symlink() and f"skipped, a link or not made by this pipeline: {link}" in caplog.text
    )


def test_prune_lists_links_among_the_runs_and_not_what_they_point_to(paths, precious):
    run = finish(plan_experiments(one(), paths)["p"]["one"].runs[0])
    partition = paths.partition(run.config, run.data).with_name("digits-iid-s9-gone.npz")
    links = [
        paths.runs("p") / precious.name,
        paths.runs("p") / "dangling",
        paths.stored("p") / precious.name,
        partition,
    ]
    links += [
        run.folder / "activations-0123456789.json",
        run.folder / "snapshots" / "round-1.safetensors",
    ]
    for link in links:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(
            "nowhere"
            if link.name == "dangling"
            else precious / link.name
            if link in links[4:]
            else precious
        )
    assert prune.unused(one(), paths) == sorted(links)


@pytest.mark.parametrize("place", ["folder", "snapshots"])
def test_prune_looks_for_studies_and_snapshots_behind_no_link(place, paths, precious, caplog):
    run = finish(plan_experiments(one(), paths)["p"]["one"].runs[0])
    link, study = run.folder / "snapshots", run.folder / "activations-0123456789.json"
    if place == "folder":
        study.write_text("{}", encoding="utf-8")
        shutil.move(link := run.folder, precious.parent)
    link.symlink_to(precious.with_name(link.name) if place == "folder" else precious)
    with caplog.at_level(logging.WARNING):
        assert prune.unused(one(), paths) == []
    warned = caplog.text.count(f"skipped, a link or not made by this pipeline: {link}\n")
    assert warned == (place == "snapshots") and study.exists() == (place == "folder")


def test_prune_lists_nothing_that_the_pipeline_did_not_make(paths, caplog):
    """It reports them once, but not what git and unfinished processes leave."""
    run = finish(plan_experiments(one(), paths)["p"]["one"].runs[0])
    runs, drawn, states = paths.runs("p"), paths.data / "partitions", run.folder / "snapshots"
    files = [
        runs.parent / ".DS_Store",
        runs / ".DS_Store",
        drawn / "notes.txt",
        states / ".DS_Store",
        runs / "docs" / "a.txt",
    ]
    pipes = [runs / "pipe", drawn / "pipe.npz", states / "round-3.pipe"]
    quiet = [runs / ".gitignore", drawn / ".x.npz.abc-1.part"]
    for path in [*files, *quiet, *pipes]:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path) if path in pipes else path.write_text("")
    (drawn / "folder.npz").mkdir()
    with caplog.at_level(logging.WARNING):
        assert prune.unused(one(), paths) == []
    left = sorted(map(str, [*files[:-1], runs / "docs", *pipes, drawn / "folder.npz"]))
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        ", ".join(left)
    ]
    assert all(path.exists() for path in [*files, *quiet, *pipes])


def test_prune_spares_runs_of_todays_code_if_older_ones_are_kept(paths):
    """With `use_kept_results: false` they are used, and `keep` would replace the older ones by
    them."""
    run = finish(plan_experiments(one(), paths)["p"]["one"].runs[0])
    older = lie(run, paths, run.data, "older")
    shutil.rmtree(older.folder)
    finish(replace(older, folder=paths.kept("p") / older.id))
    assert plan_experiments(one(), paths)["p"]["one"].runs[0].id == older.id
    assert (
        plan_experiments(one().model_copy(update={"use_kept_results": False}), paths)["p"]["one"]
        .runs[0]
        .id
        == run.id
    )
    assert prune.unused(one(), paths) == [] and run.summary.exists()


def test_prune_reports_errors_at_other_scales(paths):
    asked = {"studies": {"tsne": {"rounds": [99], "images": 4}}}
    settings = params(scales={"long": {"experiments": {"p": {"one": asked}}}})
    with pytest.raises(UserError, match="p/scales.yaml: long.one: studies.tsne: rounds: "):
        prune.unused(settings, paths)
