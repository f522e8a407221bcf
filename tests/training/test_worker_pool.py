"""Clients in several processes: the same bits as one after the other, and no process that outlives
its run."""

import io
import signal
import sys
from types import SimpleNamespace

import pytest

from fedrepro.core.errors import UserError
from fedrepro.training import worker_pool
from fedrepro.training.round import run_round
from fedrepro.training.worker import Worker
from support.federation import STATEFUL, advance, assert_same, config, federation

UNEVEN = {"name": "dirichlet_by_class", "clients": 4, "alpha": 0.5, "min_size": 5}


class Here(worker_pool.WorkerProcess):
    """A worker in this process, which starts at once; its messages go through a stream all the
    same."""

    def __init__(self):
        self.worker, self.process = None, SimpleNamespace(stdout=None)

    def write(self, message):
        if self.worker is None:
            self.worker = Worker(_sent(message))
        else:
            self.process.stdout = _stream(self.worker.answer(_sent(message)))

    def end(self):
        pass


def _stream(message):
    stream = io.BytesIO()
    worker_pool.send(stream, message)
    stream.seek(0)
    return stream


def _sent(message):
    return worker_pool.receive(_stream(message))


def one_and_shared(monkeypatch, **changes):
    """State and rows of a run on one core, and on two; the worker took part."""
    monkeypatch.setattr(worker_pool, "WorkerProcess", Here)
    feds = [federation(config(**changes), executor="sequential", cores=cores) for cores in (1, 2)]
    found = [advance(fed) for fed in feds]
    assert feds[1].cores == 2 and len(feds[1].worker_pool.workers) == 1
    return found


@pytest.mark.parametrize("name", STATEFUL)
def test_cores_change_no_bit(monkeypatch, name):
    """Weights, states of server and clients, and rows, of clients that hold different numbers of
    images."""
    measures = ["test_accuracy", "initial_accuracy", "personal_accuracy_all"]
    changes = {
        "partition": UNEVEN,
        "clients_per_round": 3,
        "precision": "float32",
        "measures": measures,
        "rounds": 2,
    }
    (one, rows), (other, again) = one_and_shared(monkeypatch, algorithm={"name": name}, **changes)
    assert_same(one.weights, other.weights)
    assert_same(one.server, other.server)
    assert one.clients.keys() == other.clients.keys()
    for number, kept in one.clients.items():
        assert kept.round == other.clients[number].round
        assert_same(kept.tensors, other.clients[number].tensors)
    assert rows == again


@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.9, "augment": ["crop", "flip"], "model": {"dropout": 0.4}},
        {"keep_momentum": True, "momentum": 0.9, "algorithm": {"name": "feddyn"}},
        {"partition": {"name": "permuted", "clients": 4}},
        {"partition": {"name": "classes", "clients": 4, "redraw": True}},
        {"precision": "bfloat16", "algorithm": {"name": "fedmmd"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_cores_change_no_bit_under_other_settings(monkeypatch, changes):
    (one, rows), (other, again) = one_and_shared(monkeypatch, clients_per_round=4, **changes)
    assert_same(one.weights, other.weights)
    assert rows == again


def test_a_worker_process_ends_with_its_run():
    run = config(clients_per_round=3, rounds=2)
    shared = federation(run, executor="sequential", cores=8)  # more than there are participants
    try:
        state, rows = advance(shared, 1)
        alone, same = advance(federation(run, executor="sequential"), 1)
        assert_same(state.weights, alone.weights)
        assert rows == same
        first, second = (worker.process for worker in shared.worker_pool.workers)
        first.stdin.close()  # as the system does where the run is killed
        assert first.wait(timeout=60) == 0
        shared.worker_pool.workers.pop(0)
        second.kill()
        with pytest.raises(UserError, match="killed, .*cores_per_run"):
            run_round(shared, state)
    finally:
        shared.close()
    assert not shared.worker_pool.workers and second.poll() is not None


LINUX = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="asks the system as Linux has it"
)


@LINUX
def test_a_stopped_worker_is_reported_and_killed(monkeypatch, caplog):
    shared = federation(config(clients_per_round=2, rounds=2), executor="sequential", cores=2)
    try:
        state, _ = advance(shared, 1)
        assert not caplog.records
        process = shared.worker_pool.workers[0].process
        process.send_signal(signal.SIGSTOP)
        for name, value in (
            ("CHECK_SECONDS", 0.25),
            ("CHECKS_BEFORE_WARNING", 2),
            ("CHECKS_BEFORE_KILL", 4),
        ):
            monkeypatch.setattr(worker_pool, name, value)
        with pytest.raises(UserError, match="stopped .* 1 s"):
            run_round(shared, state)
        [record] = caplog.records
        assert f"process {process.pid}," in record.getMessage()
        assert process.poll() == -signal.SIGKILL
    finally:
        shared.close()


def test_a_failure_in_a_worker_is_raised(monkeypatch):
    monkeypatch.setattr(worker_pool, "WorkerProcess", Here)
    fed = federation(config(), executor="sequential", cores=2)
    state, _ = advance(fed, 1)
    monkeypatch.setattr(fed.worker_pool.workers[0].worker.federation.algorithm, "finish", None)
    with pytest.raises(RuntimeError, match=r"(?s)^TypeError: .*in perform"):
        run_round(fed, state)


def test_a_worker_with_other_code_trains_nothing(monkeypatch):
    monkeypatch.setattr(worker_pool, "WorkerProcess", Here)
    monkeypatch.setattr("fedrepro.runs.run.code_digest", lambda _: "edited")
    with pytest.raises(UserError, match="code changed"):
        advance(federation(config(), executor="sequential", cores=2), 1)
