"""Clients shared out over processes: the same bits as one after the other, and no process that outlives its run."""

import io

import pytest
import torch
from conftest import ALGORITHMS, advance, assert_same, config, federation

from fedrepro.engine import crew
from fedrepro.engine.executors import shares
from fedrepro.engine.helper import Helper
from fedrepro.errors import UserError

UNEVEN = {"name": "dirichlet_by_class", "clients": 4, "alpha": 0.5, "min_size": 5}


class Here:
    """A helper in this process, which starts at once; what it is told and what it tells go through a stream all the same."""

    def __init__(self, config, dataset, partition, executor):
        begun = {"config": config.model_dump_json(), "executor": executor}
        self.helper = Helper(_sent(begun | crew.packed(dataset, partition)))

    def tell(self, message):
        self.answer = _sent(self.helper.answer(_sent(message)))

    def told(self):
        return self.answer


def _sent(message):
    stream = io.BytesIO()
    crew.send(stream, message)
    stream.seek(0)
    return crew.receive(stream)


def one_and_shared(monkeypatch, **changes):
    """State and rows of a run on one core, and on two; the helper was asked."""
    monkeypatch.setattr(crew, "_Helper", Here)
    feds = [federation(config(**changes), executor="sequential", cores=cores) for cores in (1, 2)]
    found = [advance(fed) for fed in feds]
    assert feds[1].cores == 2 and len(feds[1].crew._helpers) == 1
    return found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_cores_change_no_bit(monkeypatch, name):
    """Weights, states of server and clients, and rows, of clients that hold different numbers of images."""
    measures = ["test_accuracy", "initial_accuracy", "personal_accuracy_all"]
    changes = {"partition": UNEVEN, "clients_per_round": 3, "precision": "float32", "measures": measures}
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


def test_a_helper_is_a_process_that_ends_with_its_run():
    run = config(clients_per_round=3, rounds=2)
    shared = federation(run, executor="sequential", cores=8)  # more than there are participants
    try:
        state, rows = advance(shared, 1)
        alone, same = advance(federation(run, executor="sequential"), 1)
        assert_same(state.weights, alone.weights)
        assert rows == same
        first, second = (helper._process for helper in shared.crew._helpers)
        first.stdin.close()  # as the system does where the run is killed
        assert first.wait(timeout=60) == 0
        shared.crew._helpers.pop(0)
        second.kill()
        with pytest.raises(UserError, match=r"clients was killed.*lower cores_per_run.*the same command goes on"):
            shared.advance(state)
    finally:
        third = shared.crew._helpers[-1]._process
        shared.close()
    assert third is not second and third.poll() is not None


def test_what_trains_at_once_has_no_helpers():
    assert federation(config(), executor="stacked", cores=2).crew is None
    assert not shares("sequential+graph", torch.device("cuda")) and shares("plain", torch.device("cpu"))
