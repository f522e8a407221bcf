"""Code that is edited while Snakemake runs: work planned with the old code is not executed with the
new one."""

from dataclasses import replace

import pytest

from fedrepro.config.params import DeviceChoice
from fedrepro.core.errors import UserError
from fedrepro.experiments import study_plan, study_runner
from fedrepro.experiments.plan import plan_experiments
from fedrepro.training import run as engine
from fedrepro.training import runner
from support.code import change, forget
from support.experiments import finish, params

CHANGED = "code changed since the work was planned; start the same command again"


def started(work):
    """Planned work in a process of its own, with the code that lies there by now."""
    forget()
    return work


@pytest.fixture
def tried(monkeypatch) -> list[str]:
    """The runs that come to be trained."""
    found = []
    monkeypatch.setattr(
        engine, "train", lambda run, *_: found.append(run.config.algorithm.name) or True
    )
    return found


def test_a_run_that_was_planned_with_other_code_is_not_trained(package, paths, tried):
    """Runs that do not execute the edited code are trained; comments do not count."""
    runs = [
        run for run in plan_experiments(params(), paths)["p"]["two"].runs if run.config.seed == 0
    ]
    change(package / "algorithms" / "fedprox.py", '"""FedProx: ', '"""Another docstring. ')
    assert runner.train(started(runs), paths, device=DeviceChoice("cpu")) == [] and tried == [
        "fedavg",
        "fedprox",
    ]
    change(package / "algorithms" / "fedprox.py", "0.5 *", "0.4 *")
    with pytest.raises(UserError, match=f"^{runs[1].id}: {CHANGED}$"):
        runner.train(started(runs), paths, device=DeviceChoice("cpu"))
    assert tried == ["fedavg", "fedprox", "fedavg"] and not runs[1].folder.exists()
    planned = plan_experiments(params(), paths)["p"]["two"].runs  # as the same command does
    assert (
        runner.train(started(planned), paths, device=DeviceChoice("cpu")) == []
        and tried[3:].count("fedprox") == 2
    )


def test_a_run_that_other_code_finished_is_over(paths, tried):
    run = replace(plan_experiments(params(), paths)["p"]["two"].runs[0], code="older")
    finish(run)
    assert runner.train([run], paths, device=DeviceChoice("cpu")) == [] and tried == []


def test_a_study_that_was_planned_with_other_code_is_not_made(package, paths):
    """No matter which code trained its run."""
    run = replace(plan_experiments(params(), paths)["p"]["two"].runs[0], code="older")
    case = study_plan.find_study(run, "activations", {"every": 2}, paths, "p")
    change(
        package / "studies" / "activations.py",
        "CHUNK = 500  # images per forward pass",
        "CHUNK = 500",
    )
    forget()
    assert study_plan.file_stem(case.study) == case.table.stem
    change(package / "studies" / "activations.py", "CHUNK = 500", "CHUNK = 400")
    with pytest.raises(UserError, match=f"^activations of {run.id}: {CHANGED}$"):
        study_runner.run_studies([started(case)], paths, device=DeviceChoice("cpu"))
