"""The MLflow mirror: what arrives there, that it arrives once, and that a store out of reach harms
nothing."""

import functools
import logging
import math
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from werkzeug import serving

from fedrepro.config.params import RunConfig
from fedrepro.core.files import is_locked
from fedrepro.core.metrics import USUAL
from fedrepro.runs import records
from fedrepro.runs.mlflow_mirror import VALUES_PER_CALL, mirror
from fedrepro.runs.run import Run
from support.checkout import ROOT
from support.experiments import finish

COLUMNS = ("round", *USUAL, "train_loss", "bytes_down", "bytes_up", "lr")
ROUNDS = 150  # times eight columns: more than one call's worth of points


def config(seed: int) -> RunConfig:
    return RunConfig(
        dataset="digits",
        partition={"name": "shards", "clients": 10, "shards": 2},
        model={"name": "mnist_cnn", "arch": "paper"},
        clients_per_round=5,
        rounds=ROUNDS,
        local_epochs=1,
        batch_size=16,
        lr=0.05,
        algorithm={"name": "fedmmd", "mu": 0.1},
        seed=seed,
    )


def finished_run(
    folder: Path, seed: int = 0, status: str = "finished", accuracy: float = 0.001
) -> Run:
    """A run as the engine leaves it; the accuracy of round r is r times `accuracy`, loss and rate
    miss in round 0."""
    run = Run(folder, config(seed), f"data{seed}", "c0de")
    run = replace(
        run, folder=folder.with_name(f"{folder.name}-{records.run_hash(run.config_record())}")
    )
    rows = [
        [r, r * accuracy, 2.5, "", 0.9, 1 / r if r else "", 100 * r, 50 * r, 0.05 if r else ""]
        for r in range(ROUNDS + 1)
    ]
    if status != "finished":
        rows[-1][COLUMNS.index("train_loss")] = "inf"
        rows[-1][COLUMNS.index("test_loss")] = "nan"
    text = "\n".join(",".join(map(str, row)) for row in [COLUMNS, *rows]) + "\n"
    if run.is_kept:
        return finish(run, text, status=status, commit="c0ffee0")
    times = {"timed_rounds": ROUNDS, "seconds": 60.0} | (
        {"ended": "2026-03-02T12:00:00+00:00"} if seed else {}
    )
    finish(
        run,
        text,
        status=status,
        commit="c0ffee0",
        final={"test_accuracy": 0.15, "test_loss": 2.5},
        **times,
    )
    os.utime(run.summary, (1_700_000_000,) * 2)
    return run


class Store:
    """A database with one mirrored paper: a run that two experiments share, a diverged one and one
    still going."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = f"sqlite:///{folder / 'store' / 'mlflow.db'}"
        self.shared = finished_run(folder / "runs" / "digits-fedmmd-s0-aaaa")
        self.diverged = finished_run(
            folder / "runs" / "digits-fedmmd-s1-bbbb", 1, f"diverged at round {ROUNDS}"
        )
        self.going = finished_run(folder / "runs" / "digits-fedmmd-s2-cccc", 2)
        self.going.summary.unlink()
        runs = (self.shared, self.diverged, self.going)
        self.entries = [("fedmmd", "fig4", "FedMMD, mu 0.1", run) for run in runs]
        self.entries.append(("fedmmd", "table2", "FedMMD", self.shared))
        self.first = mirror(self.entries, self.uri, "quick")

    @property
    def client(self):
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.uri)

    def copies(self, paper: str = "fedmmd") -> dict:
        """Run -> its MLflow run; fails where one comes twice."""
        found = self.client.search_runs([self.client.get_experiment_by_name(paper).experiment_id])
        assert len({run.data.tags["run"] for run in found}) == len(found)
        return {run.data.tags["run"]: run for run in found}

    def curve(self, run: Run, column: str, paper: str = "fedmmd") -> list:
        return self.client.get_metric_history(self.copies(paper)[run.id].info.run_id, column)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("a place with spaces"))


def test_finished_runs_arrive_once_and_unfinished_ones_not(store):
    assert (store.first.new, store.first.present, store.first.problem) == (2, 0, None)
    assert set(store.copies()) == {store.shared.id, store.diverged.id}
    files = [path for path in (store.folder / "store").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    again = mirror(store.entries, store.uri, "quick")
    assert (again.new, again.present, again.problem) == (0, 2, None)
    assert {
        path: path.read_bytes() for path in (store.folder / "store").rglob("*") if path.is_file()
    } == before


def test_params_are_the_resolved_config(store):
    params = store.copies()[store.shared.id].data.params
    expected = {
        "lr": "0.05",
        "algorithm.name": "fedmmd",
        "algorithm.mu": "0.1",
        "partition.clients": "10",
    }
    assert (
        expected | {"model.arch": "paper", "train_images": "null", "augment": "[]"}
    ).items() <= params.items()
    assert len(params) == len(RunConfig.model_fields) - 5 + 2 + 3 + 2


def test_curves_have_each_value_at_its_round(store):
    assert (ROUNDS + 1) * (len(COLUMNS) - 1) > VALUES_PER_CALL
    metrics = store.copies()[store.shared.id].data.metrics
    # a column without a value makes no curve
    assert set(metrics) == set(COLUMNS) - {"round", "initial_accuracy"}
    assert metrics["bytes_down"] == 100 * ROUNDS
    accuracy = store.curve(store.shared, "test_accuracy")
    assert [(point.step, point.value) for point in accuracy] == [
        (r, r * 0.001) for r in range(ROUNDS + 1)
    ]
    loss = store.curve(store.shared, "train_loss")
    assert [(point.step, point.value) for point in loss] == [
        (r, 1 / r) for r in range(1, ROUNDS + 1)
    ]
    times = [point.timestamp for point in accuracy]
    assert times == sorted(times)
    for column in ("train_loss", "test_loss"):  # which are not finite at the end: gaps
        assert [math.isnan(point.value) for point in store.curve(store.diverged, column)[-2:]] == [
            False,
            True,
        ]


def test_tags_status_and_times_are_those_of_the_training(store):
    copies = store.copies()
    shared, diverged = copies[store.shared.id], copies[store.diverged.id]
    expected = {"paper": "fedmmd", "experiment": "fig4", "series": "FedMMD, mu 0.1", "seed": "0"}
    expected |= {"experiment.quick.fig4": "FedMMD, mu 0.1", "experiment.quick.table2": "FedMMD"}
    expected |= {"scale": "quick", "commit": "c0ffee0", "data": "data0", "code": "c0de"}
    expected |= {"run": store.shared.id, "folder": str(store.shared.folder)}
    expected |= {
        "status": "finished",
        "mlflow.note.content": "finished, test accuracy 15.00 % (scale quick)",
    }
    assert (
        expected.items() <= shared.data.tags.items()
        and shared.info.run_name == "FedMMD, mu 0.1, fig4, seed 0"
    )
    # of earlier code its summary's age
    assert (shared.info.status, shared.info.end_time) == ("FINISHED", 1_700_000_000_000)
    assert shared.info.end_time - shared.info.start_time == 60_000
    assert (
        diverged.info.status == "FAILED"
        and diverged.data.tags["status"] == f"diverged at round {ROUNDS}"
    )
    assert diverged.info.end_time == datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp() * 1000


def test_a_kept_run_is_mirrored_from_what_was_kept(store):
    run = finished_run(store.folder / "results" / "kept" / "shelf" / "digits-fedmmd-s0")
    # and mirrored before it was kept
    local = finished_run(store.folder / "local" / "digits-fedmmd-s0")
    for entry in (run, local):
        mirror([("shelf", "fig1", "FedMMD", entry)], store.uri, "quick")
    assert list(store.copies("shelf")) == [run.id]
    assert len(store.curve(run, "test_accuracy", "shelf")) == ROUNDS + 1


def test_an_interrupted_copy_is_replaced(store, monkeypatch):
    from mlflow import MlflowClient

    run = finished_run(store.folder / "interrupted" / "digits-fedmmd-s0-dddd")
    entries = [("interrupted", "fig1", "FedMMD", run)]
    with monkeypatch.context() as patch:
        patch.setattr(
            MlflowClient, "log_batch", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
        )
        broken = mirror(entries, store.uri, "quick")
    assert broken.new == 0 and "disk full" in broken.problem
    left = store.copies("interrupted")[run.id]
    assert left.info.status == "RUNNING"
    assert mirror(entries, store.uri, "quick").new == 1
    copy = store.copies("interrupted")[run.id]
    assert copy.info.status == "FINISHED" and copy.info.run_id != left.info.run_id
    assert len(store.curve(run, "test_accuracy", "interrupted")) == ROUNDS + 1


def test_an_interrupt_ends_the_copying(store, monkeypatch):
    from mlflow import MlflowClient, MlflowException

    calls: list[str] = []

    def interrupted(*_: object, **__: object) -> None:
        calls.append("create_run")
        raise MlflowException("rolled back") from KeyboardInterrupt()

    monkeypatch.setattr(MlflowClient, "create_run", interrupted)
    runs = [
        finished_run(store.folder / "stopped" / f"digits-fedmmd-s{seed}-dddd", seed)
        for seed in range(2)
    ]
    with pytest.raises(KeyboardInterrupt):
        mirror([("stopped", "fig1", "FedMMD", run) for run in runs], store.uri, "quick")
    assert len(calls) == 1


def test_one_process_at_a_time_writes_a_database(store, monkeypatch):
    from mlflow import MlflowClient

    run, seen = finished_run(store.folder / "alone" / "digits-fedmmd-s0-dddd"), []
    database = Path(store.uri.removeprefix("sqlite:///"))
    monkeypatch.setattr(
        MlflowClient,
        "log_batch",
        lambda *_: seen.append(is_locked(database.with_name(f".{database.name}.lock"))),
    )
    assert mirror([("alone", "fig1", "FedMMD", run)], store.uri, "quick").new == 1
    assert seen and all(seen) and not is_locked(database.with_name(f".{database.name}.lock"))


def test_tags_follow_the_experiments_and_a_deleted_experiment_comes_back(store):
    run = finished_run(store.folder / "moved" / "digits-fedmmd-s0-eeee")
    mirror([("moved", "fig1", "FedMMD", run)], store.uri, "quick")
    first = store.copies("moved")[run.id]
    store.client.delete_experiment(first.info.experiment_id)
    result = mirror(
        [("moved", name, "FedMMD", run) for name in ("fig1", "fig2")], store.uri, "small"
    )
    assert (result.new, result.present, result.problem) == (0, 1, None)
    tags = store.copies("moved")[run.id].data.tags
    also = {f"experiment.small.{name}": "FedMMD" for name in ("fig1", "fig2")}
    assert tags == first.data.tags | also
    other = finished_run(store.folder / "moved" / "digits-fedmmd-s1-eeee", 1)  # of today's settings
    mirror([("moved", "fig1", "FedMMD", other)], store.uri, "small")
    left = {
        name: {key for key in copy.data.tags if key.startswith("experiment.")}
        for name, copy in store.copies("moved").items()
    }
    assert left == {
        run.id: {"experiment.quick.fig1", "experiment.small.fig2"},
        other.id: {"experiment.small.fig1"},
    }


def test_a_folder_that_does_not_read_is_reported_and_the_others_arrive(store):
    paper = "partly"
    good = finished_run(store.folder / paper / "digits-fedmmd-s0-ffff")
    bad = finished_run(store.folder / paper / "digits-fedmmd-s1-ffff", 1)
    bad.summary.write_bytes(b"\xff{")
    result = mirror([(paper, "fig1", "FedMMD", run) for run in (bad, good)], store.uri, "quick")
    assert result.new == 1 and bad.id in result.problem
    assert set(store.copies(paper)) == {good.id}


def test_options_in_the_address_of_a_database_are_not_of_its_name(store, tmp_path):
    """What comes behind a question mark is SQLAlchemy's."""
    entries, uri = (
        [("fedmmd", "fig4", "FedMMD", store.shared)],
        f"sqlite:///{tmp_path}/x.db?timeout=60",
    )
    assert mirror(entries, uri, "quick").new == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.db.lock", "x.db"]


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:///:memory:",
        "sqlite://",
        "sqlite:///",
        "sqlite:///file:x.db?uri=true",
        "sqlite:x.db",
    ],
)
def test_a_database_that_is_no_file_is_reported_and_leaves_nothing(
    store, tmp_path, monkeypatch, uri
):
    monkeypatch.chdir(tmp_path)
    result = mirror(store.entries, uri, "quick")
    assert result.new == 0 and "names no database file; expected sqlite:///<path>" in result.problem
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["", "-journal", "-wal", "-shm"])
def test_git_ignores_the_database_and_what_it_leaves_while_it_is_open(ending, tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    asked = ["git", "check-ignore", "-q", f"mlflow.db{ending}"]
    assert subprocess.run(asked, cwd=tmp_path).returncode == 0


@pytest.fixture
def server(tmp_path) -> Iterator[str]:
    """The address of MLflow's server, which answers in a thread of this process."""
    from mlflow.server import app, handlers

    handlers.initialize_backend_stores(
        f"sqlite:///{tmp_path}/server.db", default_artifact_root=str(tmp_path / "files")
    )
    running = serving.make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.port}"
    running.shutdown()
    thread.join()


def test_a_server_gets_the_same_as_a_database(store, server):
    """In the same few calls: an unchanged copy costs none."""
    from mlflow import MlflowClient

    outcome = mirror(store.entries, server, "quick")
    assert (outcome.new, outcome.problem) == (2, None)
    assert mirror(store.entries, server, "quick").present == 2
    client = MlflowClient(tracking_uri=server)
    copies = {
        run.data.tags["run"]: run
        for run in client.search_runs([client.get_experiment_by_name("fedmmd").experiment_id])
    }
    for name, copy in store.copies().items():
        assert (
            copies[name].data.params == copy.data.params
            and copies[name].data.tags.items() >= copy.data.tags.items()
        )
        assert (copies[name].info.status, copies[name].info.end_time) == (
            copy.info.status,
            copy.info.end_time,
        )
    points = client.get_metric_history(copies[store.shared.id].info.run_id, "test_accuracy")
    assert [(point.step, point.value) for point in points] == [
        (r, r * 0.001) for r in range(ROUNDS + 1)
    ]


def test_a_run_is_copied_in_three_calls(store, tmp_path, monkeypatch):
    """Beside those for more values than a call takes; each costs a database many milliseconds."""
    from mlflow import MlflowClient

    calls: list[str] = []
    for name in (
        "create_run",
        "log_batch",
        "set_terminated",
        "set_tag",
        "delete_tag",
        "log_artifact",
    ):

        def counted(*given, real, called=name, **more):
            calls.append(called)
            return real(*given, **more)

        monkeypatch.setattr(
            MlflowClient, name, functools.partialmethod(counted, real=getattr(MlflowClient, name))
        )
    uri, entries = f"sqlite:///{tmp_path}/calls.db", [("fedmmd", "fig4", "FedMMD", store.shared)]
    mirror(entries, uri, "quick")
    # of 1,208 points and 40 settings
    assert calls == ["create_run", "log_batch", "log_batch", "set_terminated"]
    calls.clear()
    mirror(entries, uri, "quick")
    assert calls == []


def test_nothing_to_mirror_opens_no_store(store, tmp_path):
    result = mirror(
        [("fedmmd", "fig4", "FedMMD", store.going)], f"sqlite:///{tmp_path / 'none.db'}", "quick"
    )
    assert (result.new, result.present, result.problem) == (0, 0, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "uri",
    [
        "http://name:secret@127.0.0.1:9",
        "sqlite:////proc/none/mlflow.db",
        "sqlite:////proc/mlflow.db",
        "nonsense://here",
    ],
)
def test_a_store_out_of_reach_is_reported_soon_and_raises_nothing(store, caplog, uri):
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        result = mirror(store.entries, uri, "quick")
    assert time.monotonic() - began < 10
    assert result.new == result.present == 0
    assert uri.rsplit("@")[-1] in result.problem and "secret" not in caplog.text + result.problem
