"""JSON schemas for editors: they accept our settings and papers' files, and refuse mistakes in
them."""

import json

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from fedrepro.config import strict_yaml
from support.checkout import ROOT

SCHEMAS = {
    path.name: json.loads(path.read_text(encoding="utf-8"))
    for path in ROOT.glob("workflow/schemas/*.json")
}
CHOSEN = "chosen"  # written by a command, and read with a model of its own
OURS = [
    ROOT / "params.yaml",
    *(path for path in sorted(ROOT.glob("workflow/papers/*/*.yaml")) if path.stem != CHOSEN),
]


def mistakes(values: object, schema: str) -> list[str]:
    """What a schema has against a file's values; one refers to another by its file's name."""
    resources = [(name, Resource.from_contents(own, DRAFT202012)) for name, own in SCHEMAS.items()]
    validator = Draft202012Validator(
        {"$ref": f"{schema}.schema.json"}, registry=Registry().with_resources(resources)
    )
    return [error.message for error in validator.iter_errors(values)]


@pytest.mark.parametrize("path", OURS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_our_own_files_are_right_and_name_their_schema(path):
    assert mistakes(strict_yaml.read(path), path.stem) == []
    schema = "workflow/schemas" if path.stem == "params" else "../../schemas"
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    assert first == f"# yaml-language-server: $schema={schema}/{path.stem}.schema.json"


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 0},
        {"lr": -1},
        {"lr": 0},
        {"momentum": 7},
        {"seeds": [-3]},
        {"seeds": []},
        {"roundz": 1},
        {"batch_size": "ten"},
        {"dataset": "mnits"},
        {"model": "cnn"},
        {"model": {"name": "mnist_cnn", "widht": 1}},
        {"model": {"dropout": 1}},
        {"partition": {"name": "iid", "alpha": 1}},
        {"partition": {"clients": 0}},
        {"partition": {"nonsense": 1}},
        {"schedule": {"name": "exponential", "decay": 0}},
        {"augment": ["mirror"]},
        {"measures": ["speed"]},
        {"series": {"a": {"name": "fedprox", "mew": 1}}},
        {"series": {"a": {"name": "fedprox", "mu": -1}}},
        {"series": {"a": {"name": "fedavg", "overrides": {"seed": 1}}}},
        {"series": {"a": {"name": "fedavg", "overrides": {"lr": -1}}}},
        {"studies": {"tsne": {"imags": 3}}},
        {"studies": {"dreams": {}}},
        {"studies": {"newcomers": {"target": 0}}},
        {"precision": "float8"},
        {"task": "guessing"},
        {"proxy": {"share": 0}},
    ],
)
@pytest.mark.parametrize("where", ["experiment", "variant", "scale"])
def test_a_mistake_is_told(change, where):
    """As the code tells it, at the active scale: tests/config/test_config.py,
    tests/experiments/test_plan.py."""
    experiment = {"fig": {"variants": {"fig2": change}} if where == "variant" else change}
    assert mistakes(
        {"small": experiment} if where == "scale" else experiment,
        "scales" if where == "scale" else "experiments",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"cores_per_run": 0},
        {"checkpoint_seconds": -1},
        {"devices": [-1]},
        {"executor": "fast"},
        {"papers": {"fedmmd": {}}},
        {"scales": {"small": {"seeds": []}}},
        {"scales": {"nobodys": {"seeds": [0]}}},
        {"scales": {"nobodys": {"like": ["small"]}}},
    ],
)
def test_a_mistake_beside_the_papers_is_told(change):
    assert mistakes({"papers": [], "scales": {}} | change, "params")
    assert not mistakes(
        {"papers": ["a"], "scales": {"nobodys": {"like": "small", "seeds": [7]}}}, "params"
    )


CURVES = {"title": "Accuracy over rounds", "experiment": "one"}
ENDS = {"kind": "value", "series": "Ours", "round": 9}
CLAIM = {
    "text": "Ours ends at 90 %",
    "source": "p. 5",
    "experiment": "one",
    "quantity": ENDS,
    "reported": 90,
}


def wrong(figure: dict, table: dict | None, claim: dict) -> list[str]:
    tables = {} if table is None else {"table1": {"title": "Rounds"} | table}
    artifacts = {
        "title": "A",
        "reference": "A 2020",
        "figures": {"fig1": CURVES | figure},
        "tables": tables,
    }
    return mistakes(artifacts, "artifacts") + mistakes({"1": CLAIM | claim}, "claims")


@pytest.mark.parametrize(
    ("figure", "table", "claim"),
    [
        ({"kind": "pie"}, None, {}),
        ({"experimnt": "two"}, None, {}),
        ({"kind": "bars"}, None, {}),
        ({}, {"panels": ["one"]}, {}),
        ({}, {"kind": "convergence", "panels": []}, {}),
        ({}, None, {"reported": None}),
        ({}, None, {"measure": "speed"}),
        ({}, None, {"quantity": ENDS | {"kind": "luck"}}),
        ({}, None, {"quantity": ENDS | {"rounds": 3}}),
        ({}, None, {"tolerance": -1}),
        ({}, None, {"scales": {"small": {"colour": 4}}}),
    ],
)
def test_a_mistake_in_artifacts_is_told(figure, table, claim):
    assert wrong(figure, table, claim)


def test_groups_of_claims():
    claim = {key: value for key, value in CLAIM.items() if key != "source"} | {
        "quantity": {"round": 9}
    }
    shared = {"source": "p. 5", "quantity": {"kind": "value", "series": "Ours"}}
    group = {"defaults": shared, "1": claim, "g": {"defaults": {}, "2": claim}}
    assert mistakes({"g": group, "3": CLAIM}, "claims") == mistakes(group, "claims") == []
    assert mistakes({"1": claim}, "claims")  # no group says the rest
    for wrong in (
        {"defaults": shared | {"colour": 4}},
        {"defaults": 3},
        {"4": {"reported": None}},
        {"h": {"defaults": {"a": 1}}},
    ):
        assert mistakes({"g": group | wrong}, "claims")
