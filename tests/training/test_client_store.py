"""States of clients in files above a limit: the same bits, in constant memory."""

import pytest

from fedrepro.training import checkpoint
from fedrepro.training import state as states
from fedrepro.training.round import run_round
from fedrepro.training.run import Limits
from support.federation import advance, assert_same, config, federation, train

METHODS = {
    "feddyn": {"momentum": 0.9, "keep_momentum": True},
    "fedper": {"model": {"norm": "batch"}},
}


@pytest.mark.parametrize("in_memory", [0, 2])
@pytest.mark.parametrize(("name", "executor"), [("feddyn", "sequential"), ("fedper", "stacked")])
def test_states_in_files_change_no_bit(name, executor, in_memory, tmp_path, monkeypatch):
    """Of a round, and of one that is continued from a checkpoint; a file goes with the state that
    it belongs to."""
    settings = config(algorithm={"name": name}, rounds=4, precision="float32", **METHODS[name])
    wanted, rows = advance(federation(settings, executor=executor))
    limit = in_memory * wanted.clients[0].bytes + 1
    monkeypatch.setattr(states, "CLIENT_BYTES", limit)
    fed = federation(settings, executor=executor)
    fed.client_store.folder = tmp_path
    state, _ = advance(fed, 2)
    checkpoint.save(tmp_path / "checkpoint.safetensors", state, rows[:3], "run")
    loaded, _ = checkpoint.load(tmp_path / "checkpoint.safetensors", "run", fed.client_store.keep)
    for start in (state, fed.state_to_device(loaded)):
        after, row = run_round(fed, start)
        after, row = run_round(fed, after)
        assert row == rows[4]
        assert_same(after.weights, wanted.weights)
        for number, client in wanted.clients.items():
            assert_same(after.clients[number].tensors, client.tensors)
        assert any(client.in_file for client in after.clients.values())
        assert sum(client.bytes for client in after.clients.values() if not client.in_file) <= limit
    del state, loaded, start
    [folder] = tmp_path.glob("clients-*")
    assert len(list(folder.iterdir())) == sum(client.in_file for client in after.clients.values())
    fed.close()
    assert not folder.exists()


def test_a_run_leaves_no_states_of_clients_and_removes_those_of_a_killed_one(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "CLIENT_BYTES", 1)
    (tmp_path / "run" / "clients-killed").mkdir(parents=True)
    assert train(
        tmp_path / "run", config(algorithm={"name": "scaffold"}), Limits(checkpoint_seconds=0)
    )
    assert not [path.name for path in (tmp_path / "run").iterdir() if "clients" in path.name]
    assert not checkpoint.load(tmp_path / "run" / "model.safetensors", "run")[0].clients
