"""The choice of a job's GPU, on a machine with pretended GPUs."""

from types import SimpleNamespace

import pytest
import torch

from fedrepro.cli import main
from fedrepro.config.params import Gpus
from fedrepro.core.errors import UserError
from fedrepro.training import devices
from support.settings import write


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """`machine(n)`: n GPUs. Gives the list of those that were made the process's own."""
    chosen = []

    def with_gpus(number: int) -> list[int]:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
        return chosen

    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(devices, "pick_device", torch.device)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=f"gpu-{number}")
    )
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(devices, "held_locks", [])
    return with_gpus


def jobs(monkeypatch, many: int, gpus: Gpus) -> list:
    """So many processes take a device, as far as a lock can tell: each holds its own. They are
    returned."""
    found = []
    for _ in range(many):
        monkeypatch.setattr(devices, "held_locks", [])
        assert devices.acquire_device("cuda", gpus, forbid=lambda seconds: True).type == "cuda"
        found.append(devices.held_locks)
    return found


@pytest.mark.parametrize(
    ("gpus", "order"),
    [(Gpus(), [0, 1, 2]), (Gpus((2, 0)), [2, 0]), (Gpus((0, 1), jobs=2), [0, 1, 0, 1])],
    ids=str,
)
def test_each_job_takes_the_emptiest_gpu_that_it_may(machine, monkeypatch, caplog, gpus, order):
    chosen = machine(3)
    holders = jobs(monkeypatch, len(order), gpus)
    assert chosen == order
    monkeypatch.setattr(devices, "held_locks", [])
    assert devices.acquire_device("cuda", gpus, forbid=lambda seconds: True) is None
    assert "gpu_jobs_per_device" in caplog.text
    holders[1].pop().close()  # as the end of its process does
    devices.acquire_device("cuda", gpus)
    assert chosen[-1] == order[1]


def test_where_locks_are_unknown_a_gpu_is_taken_all_the_same(machine, monkeypatch, caplog):
    chosen = machine(3)
    monkeypatch.setattr(devices, "lock", lambda file: None)
    for process, gpu in ((6, 0), (7, 2)):
        monkeypatch.setattr(devices.os, "getpid", lambda process=process: process)
        devices.acquire_device("cuda", Gpus((0, 2)))
        assert chosen[-1] == gpu
    assert "TMPDIR" in caplog.text


@pytest.mark.parametrize(("there", "message"), [(2, "devices: .*2, 5"), (0, "devices: .*1, 2, 5")])
def test_missing_gpus(machine, there, message):
    machine(there)
    with pytest.raises(UserError, match=message):
        devices.acquire_device("cuda", Gpus((1, 2, 5)))


def test_a_plan_takes_no_device(machine, monkeypatch, tmp_path, capsys):
    """`auto` means what is there; `cuda` may be elsewhere, as on a cluster whose login node has no
    GPU."""
    machine(0)
    assert [devices.planned_device(name).type for name in ("auto", "cpu", "cuda")] == [
        "cpu",
        "cpu",
        "cuda",
    ]
    # by a driver that is too old to be used
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices.planned_device("auto").type == "cpu" and devices.gpu_indices() == []
    chosen = machine(1)
    assert [devices.planned_device(name).type for name in ("auto", "cpu", "cuda")] == [
        "cuda",
        "cpu",
        "cuda",
    ]
    machine(0)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"device": "cuda"})
    assert main.main(["plan"]) == 0 and "p/fig" in capsys.readouterr().out
    assert not chosen and not devices.held_locks


@pytest.mark.parametrize(
    ("there", "gpus", "name", "jobs"),
    [
        (0, Gpus(), "auto", 16),
        (0, Gpus(), "cuda", 16),
        (1, Gpus(), "auto", 1),
        (1, Gpus(), "cpu", 16),
        (0, Gpus((0, 1)), "cuda", 16),
        (3, Gpus((0, 2), jobs=2), "cuda", 4),
        (9, Gpus(jobs=2), "auto", 16),
    ],
)
def test_parallel_jobs_are_limited_by_gpus(machine, there, gpus, name, jobs):
    """Without a GPU here, as on a login node, as many as cores."""
    machine(there)
    assert devices.max_parallel_jobs(name, gpus, 16) == jobs
