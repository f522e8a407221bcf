import importlib
import json
import math
import sys

import pytest

from support.checkout import ROOT

sys.path.insert(0, str(ROOT))  # the benchmarks are no part of the installed package

from benchmarks import __main__ as command
from benchmarks import summary, table, workloads
from benchmarks.clock import Clock
from benchmarks.contenders import common
from fedrepro.config.inheritance import merge
from fedrepro.data import datasets
from fedrepro.runs.paths import Paths
from fedrepro.training import runner
from fedrepro.training.devices import pick_device
from fedrepro.training.federation import Federation

ROUNDS = 3
SMALL = {
    "dataset": "digits",
    "train_images": 400,
    "partition": {"name": "iid", "clients": 20},
    "model": {"name": "mnist_cnn", "width": 0.125},
    "clients_per_round": 4,
    "local_epochs": 1,
    "batch_size": 8,
    "lr": 0.1,
    "algorithm": {"name": "fedavg"},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("data")
    runner.provide_dataset("digits", Paths(folder), None)
    return str(folder)


def small(**changes) -> workloads.Workload:
    return workloads.Workload(
        title="digits", training=merge(SMALL, changes), rounds=ROUNDS, warmup=1
    )


def task(contender: str, data: str, **changes) -> workloads.Task:
    return workloads.Task(contender, small(**changes).config(ROUNDS), warmup=1, data=data)


def ran(chosen: workloads.Task) -> Clock:
    clock = Clock(chosen.config.rounds, chosen.warmup)
    importlib.import_module(f"benchmarks.contenders.{chosen.contender}").run(chosen, clock)
    return clock


def test_workloads_are_those_of_the_issue():
    read = workloads.read()
    configs = {name: workload.config(workload.rounds) for name, workload in read.items()}
    steps = {"Y1": 60, "Y2": 1200, "Y3": 250, "Y4": 50, "Y5": 100}
    images = {"Y1": 60, "Y2": 600, "Y3": 50, "Y4": 500, "Y5": 640}
    assert {name: workloads.steps(config) for name, config in configs.items()} == steps
    assert {name: workloads.images_per_client(config) for name, config in configs.items()} == images
    assert all(workload.rounds - workload.warmup >= 3 for workload in read.values())


def test_operations_by_hand():
    config = small(model={"name": "logistic"}).config(1)
    shape, _, test = datasets.extent("digits")
    # per image: forward, and once more for the gradient of the weights
    product = 2 * math.prod(shape) * 10
    assert workloads.operations(config) == {
        "training": 2 * product * 4 * 20,
        "evaluation": product * test,
    }


@pytest.mark.parametrize(
    "changes", [{}, {"augment": ["crop", "flip"], "momentum": 0.1, "nesterov": True}]
)
def test_ours_and_loader_do_the_same_work(data, changes):
    ours, loader = ran(task("ours", data, **changes)), ran(task("loader", data, **changes))
    assert ours.steps == loader.steps == ROUNDS * 4 * 3  # 20 images in batches of 8
    assert len(ours.seconds) == len(loader.seconds) == ROUNDS - 1
    assert ours.evaluated == loader.evaluated == [False, True]
    # the same weights, the same test images
    assert ours.accuracy[0] == pytest.approx(loader.accuracy[0])
    assert (
        set(ours.accuracy) == {0, ROUNDS}
        and abs(ours.accuracy[ROUNDS] - loader.accuracy[ROUNDS]) < 0.3
    )


def test_cohort_is_the_engines(data):
    chosen = task("ours", data)
    federation = Federation(
        chosen.config, *common.load_partitioned(chosen.config, data), pick_device("cpu")
    )
    assert all(common.cohort(chosen, round) == federation.cohort(round) for round in range(1, 6))


WHEN = {"date": "2026-01-01", "commit": "abc"}


def run_of(seconds: float, accuracy: float, steps: int = 60) -> dict:
    return {
        "seconds": [seconds] * 3 + [11 * seconds],
        "evaluated": [False] * 3 + [True],
        "accuracy": {"0": 0.1, "4": accuracy},
        "steps": steps * 4,
        "rounds": 4,
        "device_peak_bytes": None,
    }


@pytest.fixture
def result() -> dict:
    def record(contender: str, count: int, runs: list[dict]) -> dict:
        about = {"workload": "Y1", "contender": contender, "processes": count, "repeat": 0}
        return about | {"results": runs, "peak_bytes": 2**30} | WHEN

    return {
        "date": "2026-01-01",
        "device": "cpu",
        "hardware": {
            "processor": "a processor",
            "cores": 2,
            "memory_gib": 8.0,
            "system": "Linux x86_64",
        },
        "versions": {"ours": {"torch": "2.13.0"}, "peers": {"pfl": "0.6.0"}},
        "protocol": {"evaluate_every": 10, "executor": "auto", "threads_per_process": 1},
        "datasets": {"mnist": "abc"},
        "workloads": {"Y1": summary.facts(workloads.read()["Y1"])},
        "kernels": [
            {"workload": "Y1", "repeat": turn, "kernels": {"share": 0.5 + turn / 10, "rate": 2e9}}
            | WHEN
            for turn in (0, 1, 2)
        ],
        "measurements": [
            record("ours", 2, [run_of(0.01, 0.85), run_of(0.01, 0.85)]),
            record("pfl", 2, [run_of(0.1, 0.95, 30), run_of(0.1, 0.95, 30)]),
            {
                "workload": "Y1",
                "contender": "flower",
                "processes": 2,
                "repeat": 0,
                "failed": "no actor | none",
            }
            | WHEN,
        ],
        "scans": [
            {
                "workload": "Y1",
                "change": {"cohort": 50},
                "steps": 300,
            }
            | {"results": [run_of(0.05, 0.85)], "peak_bytes": 1}
            | WHEN
        ],
    }


def test_numbers_of_the_table(result):
    ours, pfl, flower = summary.rows(result, "Y1", 2)
    # two runs at once, each 0.01 s and a tenth of the evaluation's 0.1 s
    assert ours["seconds"] == pytest.approx(0.01)
    assert pfl["seconds"] == pytest.approx(0.2)  # one run of two workers
    assert pfl["ratio"] == pytest.approx(20) and ours["steps"] == pfl["steps"] == 60
    assert ours["accuracy"] == 0.85 and ours["round"] == 4
    assert flower["failed"] == "no actor | none" and flower["ratio"] is None
    assert summary.kernels(result, "Y1") == {"share": 0.6, "rate": 2e9}


def test_table_from_a_stored_result(result, tmp_path, monkeypatch, capsys):
    path = command.store(result, tmp_path)
    assert path.name == "cpu.json"
    path.with_suffix(".md").unlink()
    monkeypatch.setattr("sys.argv", ["benchmarks", "--table", str(path)])
    command.main()
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert (
        page
        == capsys.readouterr().out
        == table.render(json.loads(path.read_text(encoding="utf-8")))
    )
    assert "| 2 | pfl-research | 0.2 (0.2-0.2) | 300 | 20.00 |" in page
    assert "the accuracies lie 10.0% apart" in page and "failed: no actor / none" in page
    assert "| cohort 50 | 0.1 |" in page and "60% of the processor time" in page
    assert (
        "1 turn of every contender, 2026-01-01 at abc." in page
        and "Scans, 2026-01-01 at abc." in page
    )
