"""Which job draws which partition, and which heat maps are current."""

import subprocess
import sys

import numpy as np

from fedrepro.config.params import Params
from fedrepro.data import datasets, partitions
from fedrepro.data.partitions import _store
from fedrepro.experiments import partition_jobs
from fedrepro.experiments.plan import all_experiments, plan_experiments, unique_runs
from fedrepro.report.figures import _partition_heatmap
from fedrepro.runs.paths import Paths
from support.experiments import one, params
from support.federation import config


def drawn(settings: Params, paths: Paths) -> list[partition_jobs.PartitionJob]:
    return partition_jobs.partition_jobs(all_experiments(plan_experiments(settings, paths)), paths)


def test_each_partition_is_drawn_by_one_job(paths):
    series = {"FedMMD": {"overrides": {"dataset": "digits_rgb", "model": {"name": "cifar_cnn"}}}}
    two = {
        "partition": {"clients": 5},
        "series": {
            "Prox": {"overrides": {"partition": {"clients": 4}}},
            "MNIST": {"name": "fedavg", "overrides": {"dataset": "mnist"}},
        },
    }
    planned = plan_experiments(params(papers={"p": {"one": {"series": series}, "two": two}}), paths)
    found = {
        drawing.name: drawing
        for drawing in partition_jobs.partition_jobs(all_experiments(planned), paths)
    }
    described = {
        name: ([data.name for data in job.datasets], len(job.configs))
        for name, job in found.items()
    }
    # the seeds; Prox shares those of "one"
    assert described == {"p": (["digits_rgb", "digits"], 6), "p_mnist": (["mnist"], 2)}
    runs = unique_runs(all_experiments(planned))
    listed = [path for drawing in found.values() for path in drawing.configs]
    assert len(listed) == len(set(listed)) and set(listed) == {
        paths.partition(run.config, run.data) for run in runs
    }


def test_a_learning_rate_changes_no_partition(paths):
    """Snakemake compares a job's parameters: they contain only what determines a partition."""
    first, faster = (drawn(one(lr=lr), paths) for lr in (0.1, 0.2))
    assert first == faster and first != partition_jobs.partition_jobs(
        all_experiments(plan_experiments(one(train_images=50), paths)), paths
    )


def test_a_heat_map_is_drawn_again_when_its_code_or_its_partition_changes(tmp_path, monkeypatch):
    datasets.fetch("digits", tmp_path)
    datasets.prepare("digits", tmp_path, tmp_path)
    stored, dealing = (
        tmp_path / "0.npz",
        config(dataset="digits", train_images=60, test_images=20).partition_config,
    )
    _partition_heatmap.provide_heatmaps({stored: dealing}, lambda _: tmp_path)
    drawn, held = stored.with_suffix(".png"), stored.read_bytes()
    assert _store.is_heatmap_current(drawn, stored) and not _store.is_heatmap_current(
        drawn, tmp_path / "1.npz"
    )
    before = drawn.stat().st_mtime_ns
    _partition_heatmap.provide_heatmaps({stored: dealing}, lambda _: tmp_path)
    assert drawn.stat().st_mtime_ns == before
    monkeypatch.setattr("fedrepro.core.provenance.heatmap_digest", lambda: "other code")
    assert not _store.is_heatmap_current(drawn, stored)
    _partition_heatmap.provide_heatmaps({stored: dealing}, lambda _: tmp_path)
    assert _store.is_heatmap_current(drawn, stored) and stored.read_bytes() == held


def test_a_heat_map_shows_images_in_use_and_the_partition(tmp_path, monkeypatch):
    """Every image has a class of its own, so that columns of the map are images: 4 of 20, two for
    each client."""
    labels = datasets.LabelledSubset(np.arange(20), 20)
    meta = {"class_names": [str(label) for label in range(20)], "title": "Made"}
    data = datasets.DatasetLabels("made", labels, labels, 1, meta)
    used, _ = partitions.subset(data, 4, 4)
    assert used.tolist() != list(range(4))
    drawn, draw = [], _partition_heatmap.heatmap
    monkeypatch.setattr(
        _partition_heatmap, "heatmap", lambda *given: drawn.append(given) or draw(*given)
    )
    dealing = config(
        train_images=4, test_images=4, partition={"clients": 2}, clients_per_round=2, seed=3
    ).partition_config
    parts = [np.array([0, 1]), np.array([2, 3])]
    for name, redraw_seed in (("kept", None), ("redrawn", 1)):
        stored = partitions.Partition(parts, parts, clients=2, redraw_seed=redraw_seed)
        _partition_heatmap.draw(dealing, data, stored, tmp_path / f"{name}.npz")
        counts, classes, title = drawn[-1]
        held = sorted(np.flatnonzero(row).tolist() for row in counts)
        assert (
            held == [used[:2].tolist(), used[2:].tolist()]
            and counts.sum() == 4
            and classes == meta["class_names"]
        )
        assert title.startswith("Made: iid\nclients 2") and "seed 3" in title
        assert title.endswith("\ndrawn again every round, round 1 shown") == (name == "redrawn")


def test_an_incomplete_heat_map_is_drawn_again(tmp_path):
    datasets.fetch("digits", tmp_path)
    datasets.prepare("digits", tmp_path, tmp_path / "out")
    program = (
        "import os, sys; from pathlib import Path; from fedrepro.config.params import "
        "PartitionConfig\n"
        "from fedrepro.report.figures import _partition_heatmap as heatmap\n"
        "def killed(figure, path, **_): Path(path).write_bytes(b'half'); os.kill(os.getpid(), 9)\n"
        "heatmap.Figure.savefig = killed\n"
        "configs = {Path(sys.argv[1]) / '0.npz': "
        "PartitionConfig.model_validate_json(sys.argv[2])}\n"
        "heatmap.provide_heatmaps(configs, lambda _: Path(sys.argv[1]))"
    )
    dealing = config(dataset="digits", train_images=60, test_images=20).partition_config
    command = [sys.executable, "-c", program, tmp_path / "out", dealing.model_dump_json()]
    assert subprocess.run(command).returncode == -9
    _partition_heatmap.provide_heatmaps(
        {tmp_path / "out/0.npz": dealing}, lambda _: tmp_path / "out"
    )
    assert (tmp_path / "out/0.png").read_bytes().startswith(b"\x89PNG") and not list(
        tmp_path.rglob("*.part")
    )
