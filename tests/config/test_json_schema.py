"""What an editor is told of params.yaml and of a paper's artifacts: all of ours is right, and a mistake in it is one."""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from fedrepro.cli import main
from fedrepro.config import registry, strict_yaml
from fedrepro.config.inheritance import merge

ROOT = Path(__file__).parents[2]
STORED = ROOT / "workflow/schemas/params.schema.json"
SCHEMAS = {"settings": STORED, "artifacts": STORED.with_name("artifacts.schema.json")}
SETTINGS = strict_yaml.load((ROOT / "params.yaml").read_text(encoding="utf-8"))
PAPER = next(iter(SETTINGS["papers"]))
EXPERIMENT = next(iter(SETTINGS["papers"][PAPER]))


def _validator(path: Path) -> Draft202012Validator:
    schema = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return _validator(STORED)


@pytest.fixture(scope="module")
def of_artifacts() -> Draft202012Validator:
    return _validator(SCHEMAS["artifacts"])


@pytest.mark.parametrize("of", SCHEMAS)
def test_the_stored_one_is_current(of, capsys):
    assert main.main(["schema", of]) == 0
    assert capsys.readouterr().out == SCHEMAS[of].read_text(encoding="utf-8"), f"fedrepro schema {of} > {SCHEMAS[of]}"


def test_our_own_settings_are_right(validator):
    assert [error.message for error in validator.iter_errors(SETTINGS)] == []


@pytest.mark.parametrize("change", [
    {"rounds": 0}, {"lr": -1}, {"lr": 0}, {"momentum": 7}, {"seeds": [-3]}, {"seeds": []}, {"roundz": 1}, {"batch_size": "ten"},
    {"dataset": "mnits"}, {"model": "cnn"}, {"model": {"name": "mnist_cnn", "widht": 1}}, {"model": {"dropout": 1}},
    {"partition": {"name": "iid", "alpha": 1}}, {"partition": {"clients": 0}}, {"partition": {"nonsense": 1}},
    {"schedule": {"name": "exponential", "decay": 0}}, {"augment": ["mirror"]}, {"measures": ["speed"]},
    {"series": {"a": {"name": "fedprox", "mew": 1}}}, {"series": {"a": {"name": "fedprox", "mu": -1}}},
    {"series": {"a": {"name": "fedavg", "with": {"seed": 1}}}}, {"series": {"a": {"name": "fedavg", "with": {"lr": -1}}}},
    {"studies": {"tsne": {"imags": 3}}}, {"studies": {"dreams": {}}}, {"studies": {"newcomers": {"target": 0}}},
    {"precision": "float8"}, {"task": "guessing"}, {"proxy": {"share": 0}},
])  # fmt: skip
@pytest.mark.parametrize("where", ["papers", "scales"])
def test_a_mistake_is_told(change, where, validator):
    """As the code tells it, at the active scale: tests/config/test_config.py, tests/experiments/test_plan.py."""
    within = {PAPER: {EXPERIMENT: change}}
    laid = {"papers": within} if where == "papers" else {"scales": {"small": {"experiments": within}}}
    assert not validator.is_valid(merge(copy.deepcopy(SETTINGS), laid))


@pytest.mark.parametrize("change", [
    {"cores_per_run": 0}, {"checkpoint_seconds": -1}, {"devices": [-1]}, {"executor": "fast"},
    {"scales": {"small": {"seeds": []}}}, {"scales": {"nobodys": {"seeds": [0]}}}, {"scales": {"nobodys": {"like": ["small"]}}},
])  # fmt: skip
def test_a_mistake_beside_the_papers_is_told(change, validator):
    assert not validator.is_valid(merge(copy.deepcopy(SETTINGS), change))


@pytest.mark.parametrize("change", [
    {"like": "fig4a", "skip": "no time"}, {"partition": {"alpha": 2}}, {"studies": {"tsne": None}}, {"model": "logistic"},
    {"skip": False}, {"skip": None}, {"proxy": {"augment": True}}, {"inputs": {"mean": [0.5], "std": [0.5]}}, {"proxy": None},
    {"series": {"a": {"mu": 1}}}, {"series": {"a": "fedavg"}}, {"series": {"a": {"name": "fedavg", "with": {"model": "mlp"}}}},
])  # fmt: skip
def test_what_an_overlay_may_say(change, validator):
    laid = {"scales": {"small": {"experiments": {PAPER: {EXPERIMENT: change}}}}}
    assert validator.is_valid(merge(copy.deepcopy(SETTINGS), laid))


def test_a_scale_of_ones_own_may_be_like_another(validator):
    assert validator.is_valid(merge(copy.deepcopy(SETTINGS), {"scales": {"nobodys": {"like": "small", "seeds": [7]}}}))


def test_it_lists_every_name(validator):
    for kind in ("algorithms", "datasets", "models", "partitions", "schedules", "tasks"):
        assert validator.schema["$defs"][kind]["anyOf"][0]["enum"] == registry.names(kind)


@pytest.mark.parametrize("paper", SETTINGS["papers"])
def test_our_own_artifacts_are_right(paper, of_artifacts):
    path = ROOT / f"workflow/experiments/{paper}.yaml"
    assert [error.message for error in of_artifacts.iter_errors(strict_yaml.read(path))] == []
    modeline = path.read_text(encoding="utf-8").partition("\n")[0]
    assert modeline == "# yaml-language-server: $schema=../schemas/artifacts.schema.json"


CURVES = {"title": "Accuracy over rounds", "experiment": "one"}
ENDS = {"kind": "accuracy", "series": "Ours", "round": 9}
CLAIM = {"text": "Ours ends at 90 %", "source": "p. 5", "experiment": "one", "cell": ENDS, "reported": 90}


def _artifacts(figure: dict, table: dict | None, claim: dict) -> dict:
    figures, tables = {"fig1": CURVES | figure}, {} if table is None else {"table1": {"title": "Rounds"} | table}
    return {"title": "A", "reference": "A 2020", "figures": figures, "tables": tables, "claims": {"1": CLAIM | claim}}


@pytest.mark.parametrize(("figure", "table", "claim"), [
    ({}, None, {}), ({"kind": "curves"}, None, {}), ({}, None, {"scales": {"small": {"round": 4}}}),
    ({}, {"kind": "rounds_to_target", "panels": ["one", {"experiment": "two", "name": "other"}], "baseline": "FedAvg"}, {}),
])  # fmt: skip
def test_what_artifacts_may_say(figure, table, claim, of_artifacts):
    assert [error.message for error in of_artifacts.iter_errors(_artifacts(figure, table, claim))] == []


@pytest.mark.parametrize(("figure", "table", "claim"), [
    ({"kind": "pie"}, None, {}), ({"experimnt": "two"}, None, {}), ({"kind": "bars"}, None, {}), ({}, {"panels": ["one"]}, {}),
    ({}, {"kind": "convergence", "panels": []}, {}), ({}, None, {"reported": None}), ({}, None, {"measure": "speed"}),
    ({}, None, {"cell": ENDS | {"kind": "luck"}}), ({}, None, {"cell": ENDS | {"rounds": 3}}), ({}, None, {"tolerance": -1}),
    ({}, None, {"scales": {"small": {"colour": 4}}}),
])  # fmt: skip
def test_a_mistake_in_artifacts_is_told(figure, table, claim, of_artifacts):
    assert not of_artifacts.is_valid(_artifacts(figure, table, claim))


def test_names_of_artifacts_are_files(of_artifacts):
    written = _artifacts({}, None, {})
    assert not of_artifacts.is_valid(written | {"figures": {"Fig. 1": CURVES}})
