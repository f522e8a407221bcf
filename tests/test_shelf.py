"""What prune spares: runs that the settings may name, whose data are not here."""

import logging
from dataclasses import replace

import pytest
from test_experiments import finish, one, paths  # noqa: F401 (a fixture)

from fedrepro import intact, shelf
from fedrepro.experiments import Paths, plan
from fedrepro.runs import Run

ELSEWHERE = {
    "aptos": {"dataset": "aptos", "model": {"name": "cifar_cnn"}},  # which the user brings
    "mnist": {"dataset": "mnist"},  # of a mirror that does not answer
}


def lie(run: Run, paths: Paths, data: str, code: str) -> Run:  # noqa: F811
    """As if it had been trained on some data, with its partition."""
    run = replace(run, data=data, code=code)
    name = f"{run.config.dataset.name}-{run.config.algorithm.name}-s{run.config.seed}-{intact.key(run.record())}"
    drawn = paths.partition(run.config, data)
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text("")
    return finish(replace(run, folder=paths.runs("p") / name))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_prune_spares_runs_whose_data_are_not_here(name, paths, tmp_path, caplog, monkeypatch):  # noqa: F811
    monkeypatch.setenv("FEDREPRO_DATA_MIRROR", str(tmp_path / "absent"))
    settings = one(**ELSEWHERE[name])
    named = plan(settings, paths, fetching=False)["p"]["one"].runs
    spared = [lie(named[0], paths, "theirs", "older"), lie(named[1], paths, "others", named[1].code)]
    spared[1].summary.unlink()  # it has only begun
    other = lie(replace(named[0], config=named[0].config.model_copy(update={"lr": 9.0, "seed": 7})), paths, "theirs", "older")
    with caplog.at_level(logging.WARNING):
        found = shelf.prune(settings, paths, delete=True)
    assert found == sorted([other.folder, paths.partition(other.config, "theirs")])
    assert all((run.folder / "config.json").exists() and paths.partition(run.config, run.data).exists() for run in spared)
    assert f"spared 2 runs with settings that are named: while {name} is not prepared here" in caplog.text
