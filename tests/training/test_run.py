"""A run's folder: however often and wherever a run is stopped, the same bytes come out."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from fedrepro.config.params import RunConfig
from fedrepro.core.errors import Failures, UserError
from fedrepro.core.files import MACHINE
from fedrepro.runs import records
from fedrepro.training import checkpoint
from fedrepro.training import run as engine
from fedrepro.training.compiled_step import fx_passes
from fedrepro.training.federation import State
from fedrepro.training.run import Limits
from fedrepro.training.state import ClientState
from support.experiments import without_times
from support.federation import (
    ALGORITHMS,
    LONG,
    a_run,
    assert_same,
    config,
    images,
    partition,
    train,
    uniform,
)

FREE = ("log.txt", "begun.json", "record.json")  # have times, which differ between two runs
FILES = {"model.safetensors", *FREE}
NOW = Limits(deadline=0.0)
ALIGNMENT = 64  # bytes, of what torch allocates on a processor


def contents(folder: Path) -> dict[str, Any]:
    """All files of a run, and its record without times."""
    files = (path for path in folder.rglob("[!.]*") if path.is_file() and path.name not in FREE)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files} | {
        "record": without_times(folder)
    }


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


def metrics(folder: Path) -> list[dict]:
    """The rows of a run without their seconds, as numbers."""
    columns = without_times(folder)["columns"]
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


class Stops:
    """Limits that let so many rounds through and then stop."""

    checkpoint_seconds = 1e9

    def __init__(self, rounds: int = 1) -> None:
        self.left, self.requests = rounds, []

    def forbid(self, seconds: float) -> bool:
        self.requests.append(seconds)
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_stopping_and_going_on_changes_nothing(name, tmp_path):
    settings = config(algorithm={"name": name}, precision="float32", momentum=0.9)
    whole, pieces = tmp_path / "whole" / "run", tmp_path / "pieces" / "run"
    assert train(whole, settings)
    assert [train(pieces, settings, Stops()) for _ in range(3)] == [False, False, True]
    assert contents(whole) == contents(pieces)


@pytest.mark.parametrize("changes", [
    {"partition": {"name": "classes", "clients": 2, "redraw": True}, "clients_per_round": 1},
    {"partition": {"name": "permuted", "clients": 4}, "evaluate_every": 2},
    {"keep_momentum": True, "momentum": 0.9},
    {"augment": ("crop", "brightness"), "pixel_scaling": "standardised"},
], ids=lambda changes: next(iter(changes)))  # fmt: skip
def test_stopping_in_other_settings(changes, tmp_path):
    whole, pieces = tmp_path / "whole" / "run", tmp_path / "pieces" / "run"
    assert train(whole, config(**changes))
    assert [train(pieces, config(**changes), Stops(2)) for _ in range(2)] == [False, True]
    assert contents(whole) == contents(pieces)


def test_a_finished_run(tmp_path):
    # which sends importance down, and nothing more up
    settings = config(algorithm={"name": "fedcl"}, proxy={"share": 0.1})
    assert train(tmp_path / "run", settings)
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert train(tmp_path / "run", settings, NOW)
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}

    rows, saved = metrics(tmp_path / "run"), record(tmp_path / "run")
    state, stored = checkpoint.load(tmp_path / "run" / "model.safetensors", "run")
    assert rows == stored and [row["round"] for row in rows] == [0, 1, 2, 3] and state.round == 3
    expected = {"status": "finished", "rounds": 3, "run": "run", "data": "made", "code": "code"}
    assert {key: saved[key] for key in expected} == expected
    assert saved["final"]["test_accuracy"] == rows[-1]["test_accuracy"]
    assert saved["best"]["test_accuracy"] == max(row["test_accuracy"] for row in rows)
    # whose best is not its highest
    assert set(saved["best"]) == set(saved["final"]) - {"test_loss"}
    assert saved["weights"] == sum(tensor.numel() for tensor in state.weights.values())
    assert all(saved[way] == sum(row[way] for row in rows) for way in ("bytes_down", "bytes_up"))
    assert RunConfig.model_validate(saved["config"]) == settings
    assert all("seal" in json.loads(path.read_text()) for path in (tmp_path / "run").glob("*.json"))
    assert saved["bytes_down"] > saved["bytes_up"]
    assert saved["environment"]["products"] == ("oneDNN" if fx_passes.prefers_onednn() else "torch")


@pytest.mark.parametrize("known", [0, 1, 3])
def test_a_kill_between_a_checkpoint_and_its_times_costs_only_times(known, tmp_path):
    """One that fell behind the checkpoint, or came before it."""
    assert not train(tmp_path / "run", config(), Stops(2))
    path = tmp_path / "run" / "begun.json"
    records.write(path, records.load_begun(path.parent) | {"round_seconds": [0.5] * known})
    assert train(tmp_path / "run", config())
    assert (
        record(tmp_path / "run")["columns"]["seconds"][:3]
        == ([None] + [0.5] * known + [None] * 3)[:3]
    )


def times(folder: Path) -> dict:
    return json.loads((folder / "begun.json").read_text())


def test_a_deadline_in_the_past_leaves_a_checkpoint(tmp_path):
    """The next call deletes partial files of a killed process."""
    assert train(tmp_path / "run", config(), NOW) is False
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert "checkpoint.safetensors" in names and not names & {"record.json", "model.safetensors"}
    (tmp_path / "run" / f".checkpoint.safetensors.{MACHINE}-4194303.part").write_bytes(b"half")
    assert (
        train(tmp_path / "run", config())
        and {path.name for path in (tmp_path / "run").iterdir()} == FILES
    )


def test_a_deadline_stops_before_a_round_that_would_pass_it(tmp_path):
    """A round is expected to take as long as the last."""
    assert not Limits().forbid(1e9)
    limits = Limits(deadline=time.monotonic() + 50)
    assert limits.forbid(60) and not limits.forbid(10)
    assert not train(tmp_path / "run", config(), limits := Stops(2))
    assert limits.requests[0] == 0 and min(limits.requests[1:]) > 0


def test_divergence_is_a_result(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "fedrepro"):
        assert train(tmp_path / "run", config(lr=1e12, precision="float32", rounds=9))
    saved, rows = record(tmp_path / "run"), metrics(tmp_path / "run")
    assert (
        saved["status"] == f"diverged at round {rows[-1]['round']}"
        and rows[-1]["round"] == len(rows) - 1 < 9
    )
    assert rows[-1]["test_accuracy"] is None and 0 <= saved["final"]["test_accuracy"] <= 1
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    assert (
        "diverged at round" in caplog.text
        and "diverged at round" in (tmp_path / "run" / "log.txt").read_text()
    )
    assert train(tmp_path / "run", config(lr=1e12, precision="float32", rounds=9))


CHILD = """
import sys
from pathlib import Path
from fedrepro.training.devices import pick_device
from fedrepro.training.run import Limits
from support.experiments import without_times
from support.federation import LONG, config, train
pick_device("cpu")
train(Path(sys.argv[1]), config(**LONG), Limits(checkpoint_seconds=0))
"""


def test_killed_in_the_middle(tmp_path):
    """kill -9 once a checkpoint is there, then the same command again: as if nothing had
    happened."""
    killed, whole = tmp_path / "killed" / "run", tmp_path / "whole" / "run"
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(killed)], env=environment)
    until = time.monotonic() + 60
    while not (killed / "checkpoint.safetensors").exists():
        assert child.poll() is None and time.monotonic() < until, (
            "the run ended or hung before its first checkpoint"
        )
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not (killed / "record.json").exists()
    assert train(killed, config(**LONG)) and train(whole, config(**LONG))
    assert contents(whole) == contents(killed)
    assert (
        LONG["rounds"] - 1
        <= times(killed)["timed_rounds"]
        <= times(whole)["timed_rounds"]
        == LONG["rounds"]
    )  # -1: killed before it


def test_core_seconds_do_not_count_standing_still(tmp_path, monkeypatch):
    run_round, stood = engine.run_round, 1.0

    def stand_and_run(*given):
        time.sleep(stood)
        return run_round(*given)

    monkeypatch.setattr(engine, "run_round", stand_and_run)
    assert train(tmp_path / "run", config(rounds=2))
    found = times(tmp_path / "run")
    assert 0 < found["core_seconds"] <= found["seconds"] - 2 * stood + 0.5


def test_what_clients_kept_in_a_save_that_was_cut_off_does_not_count(tmp_path):
    """The checkpoint that names it was not written; another machine may have continued since."""
    settings, pieces = config(algorithm={"name": "scaffold"}), tmp_path / "pieces" / "run"
    for rounds in (1, 2):
        for client in range(settings.partition.options["clients"]):
            for name in ("checkpoint.clients", "model.clients"):
                stale = pieces / name / f"{client}-{rounds}.safetensors"
                stale.parent.mkdir(parents=True, exist_ok=True)
                if not stale.exists():
                    stale.write_bytes(b"of another machine")
        assert train(pieces, settings, Stops()) is False
    assert train(pieces, settings) and train(tmp_path / "whole" / "run", settings)
    assert contents(tmp_path / "whole" / "run") == contents(pieces)


@pytest.mark.parametrize(
    "name",
    ["log.txt", "snapshots", "checkpoint.clients", "checkpoint.safetensors", "begun.json", ""],
)
@pytest.mark.parametrize("kind", ["folder", "absent", "pipe"])
def test_a_run_writes_and_deletes_only_in_its_own_folder(kind, name, tmp_path):
    precious, path = tmp_path / "precious" / "1-1.safetensors", tmp_path / "run" / name
    precious.parent.mkdir()
    precious.write_bytes(b"mine")
    path.parent.mkdir(exist_ok=True)
    targets = {"folder": precious.parent, "absent": tmp_path / "precious" / "absent"}
    path.symlink_to(targets[kind]) if kind in targets else os.mkfifo(path)
    with pytest.raises(UserError, match=f"{path}: "):
        train(tmp_path / "run", config(rounds=1, algorithm={"name": "scaffold"}))
    assert (
        list((tmp_path / "precious").iterdir()) == [precious] and precious.read_bytes() == b"mine"
    )


def begun(folder: Path) -> tuple[Path, State, list]:
    """A checkpoint of a run that was stopped, and what is in it."""
    assert not train(folder / "run", config(), Stops(2))
    path = folder / "run" / "checkpoint.safetensors"
    return path, *checkpoint.load(path, "run")


def test_a_flipped_bit_of_a_checkpoint_is_noticed(tmp_path):
    path, *_ = begun(tmp_path)
    whole, draw = path.read_bytes(), random.Random(0)
    for place in [len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(60))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: "):
            checkpoint.load(path, "run")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("round 1000000000 with", lambda s, rows: (replace(s, round=10**9), rows, "run")),
        ("with 0 rows", lambda s, rows: (s, [], "run")),
        ("not of this run", lambda s, rows: (s, [rows[0]] * len(rows), "run")),
        ("not of this run", lambda s, rows: (s, rows[::-1], "run")),
        (
            "not of this run",
            lambda s, rows: (
                s,
                [{key: row[key] for key in row if key != "test_loss"} for row in rows],
                "run",
            ),
        ),
        (
            "not finite",
            lambda s, rows: (
                replace(s, weights={n: t * float("nan") for n, t in s.weights.items()}),
                rows,
                "run",
            ),
        ),
        ("other;", lambda s, rows: (s, rows, "other")),
        ("not a checkpoint", lambda s, rows: b""),
        ("not a checkpoint", lambda s, rows: b"not one"),
        ("not a checkpoint", lambda s, rows: b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "),
        ("damaged", lambda s, rows: safetensors.torch.save({}, {"state": "{}"})),
    ],
)
def test_a_checkpoint_that_this_run_cannot_have(kind, change, tmp_path):
    path, state, rows = begun(tmp_path)
    changed = change(state, rows)
    path.write_bytes(changed) if isinstance(changed, bytes) else checkpoint.save(path, *changed)
    with pytest.raises(UserError, match=rf"checkpoint\.safetensors: .*{kind}"):
        train(tmp_path / "run", config())


def test_a_checkpoint_keeps_every_bit(tmp_path):
    """Also of views of the weights, which a method need not copy. What is loaded is aligned like
    the tensors of a run: products of matrices round otherwise in memory that is not, and a resumed
    run in float64 would not be the same to the bit."""
    weights = {str(size): uniform(size, dtype=torch.float64) for size in range(1, 9)}
    weights |= {"a": torch.tensor([0.1, -0.0, 1e-45, float("inf")]), "n": torch.tensor(7)}
    rows = [
        {"round": 0, "loss": 0.1 + 0.2, "lr": None},
        {"round": 1, "loss": float("inf"), "lr": 1e-4},
    ]
    state = State(
        4,
        weights,
        {"last": weights["a"], "half": weights["a"][:3]},
        {0: ClientState(1, weights)},
        diverged=True,
    )
    checkpoint.save(tmp_path / "file", state, rows, "run")
    loaded, stored = checkpoint.load(tmp_path / "file", "run")
    assert stored == rows and (loaded.round, loaded.diverged) == (4, True)
    pairs = (
        (loaded.weights, weights),
        (loaded.server, state.server),
        (loaded.clients[0].tensors, weights),
    )
    for ours, expected in pairs:
        assert_same(ours, expected)
        assert all(
            ours[key].dtype == tensor.dtype and not ours[key].data_ptr() % ALIGNMENT
            for key, tensor in expected.items()
        )


@pytest.mark.parametrize(
    ("executor", "error"),
    [
        ("stacked", torch.OutOfMemoryError("CUDA out of memory")),
        ("sequential", RuntimeError("DefaultCPUAllocator: can't allocate")),
    ],
    ids=str,
)
def test_a_full_memory_is_one_message_and_frees_itself(tmp_path, monkeypatch, executor, error):
    """It names executor, cohort and what to lower; what the run held is free again before the next
    run of the job begins."""
    held = []

    def full(federation, state):
        held.append(weakref.ref(federation))
        raise error

    monkeypatch.setattr(engine, "run_round", full)
    failures, dataset, settings = Failures(), images(), config()
    given = dataset, partition(settings, dataset), torch.device("cpu"), Limits(), executor
    with failures.collect("one"):
        engine.train(a_run(tmp_path, settings), *given)
    error.__traceback__ = None  # as if it were nobody's any more
    assert held[0]() is None
    first = ".*executor: sequential" if executor == "stacked" else ""
    message = (
        f"executor {executor}, 3 clients a round and batches of 8: {first}.*--cores.*batch_size"
    )
    with pytest.raises(UserError, match=message):
        failures.raise_all()


def test_other_errors_of_torch_stay_crashes(tmp_path, monkeypatch):
    def failing(federation, state):
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(engine, "run_round", failing)
    with pytest.raises(RuntimeError, match="multiplied"):
        train(tmp_path, config())


def test_training_needs_no_more_than_the_core(tmp_path):
    """A bare GPU machine has torch, numpy, pydantic and safetensors; nothing else may be imported
    to plan or train."""
    program = """
import sys

refused = set("yaml requests tqdm pandas sklearn scipy matplotlib seaborn".split())
refused |= set("torchvision PIL jinja2 nbformat rich".split())
refused |= {"snakemake", "mlflow", "dvc"}

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is not on a bare machine", name=name)

sys.meta_path.insert(0, Bare())
from fedrepro.cli import main
from fedrepro.config import registry
from fedrepro.experiments import plan
from fedrepro.training import runner
for kind in ("datasets", "partitions", "models", "algorithms"):
    for name in registry.names(kind):
        registry.find(kind, name)
assert main.main(["train", "--runs", "missing.json"]) == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
