"""The JSON schemas of params.yaml and experiments.yaml for editors: keys, valid names, options and
bounds.

Keys of an experiment, options and names of choices are optional, since a variant or a scale gives
only its changes. Rules on several keys, or on the data, are checked by the code alone. The schema
of scales.yaml refers to that of experiments.yaml.
"""

from collections.abc import Iterable
from typing import Any

from fedrepro.config import registry
from fedrepro.config.inheritance import VARIANTS
from fedrepro.config.params import Experiment, Params
from fedrepro.config.types import NAME

Schema = dict[str, Any]
NAMES: Schema = {"pattern": f"^{NAME}$"}
CHOICES = {
    "dataset": "datasets",
    "partition": "partitions",
    "model": "models",
    "schedule": "schedules",
    "task": "tasks",
}


def settings_schema() -> Schema:
    """Return the JSON schema of params.yaml."""
    schema = Params.model_json_schema()
    scale = schema["$defs"]["Scale"]
    scale["anyOf"] = [{"required": ["like"]}, {"required": scale.pop("required")}]
    schema["properties"]["scales"]["propertyNames"] = schema["properties"]["papers"]["items"] = {
        "type": "string"
    } | NAMES
    return without_titles(schema)


def experiments_schema() -> Schema:
    """Return the JSON schema of experiments.yaml."""
    experiment = Experiment.model_json_schema()
    defs = experiment.pop("$defs") | {kind: _choice(kind) for kind in CHOICES.values()}
    del defs["Choice"]
    experiment.pop("required")
    properties = experiment["properties"]
    for part in (
        defs["Proxy"],
        defs["Validation"],
        defs["Tuning"],
        defs["PixelScaling"]["anyOf"][1],
    ):
        part.pop("required")
    for key, kind in CHOICES.items():
        annotations = {
            name: properties[key][name]
            for name in ("default", "description")
            if name in properties[key]
        }
        properties[key] = {"$ref": f"#/$defs/{kind}"} | annotations
    series = {
        key: value
        for key, value in properties.items()
        if key not in ("series", "seeds", "studies", "tuning")
    }
    defs |= {
        "overrides": object_schema(series),
        "tune": {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}},
        "algorithms": _choice(
            "algorithms", {key: {"$ref": f"#/$defs/{key}"} for key in ("overrides", "tune")}
        ),
    }
    properties["series"]["additionalProperties"] = {"$ref": "#/$defs/algorithms"}
    studies = {
        name: {"anyOf": [object_schema(_options("studies", name)), {"type": "null"}]}
        for name in registry.names("studies")
    }
    properties["studies"] = object_schema(studies)
    properties[VARIANTS] = {
        "$ref": "#",
        "description": "experiments that take over these settings, with what they change",
    }
    defs["Experiment"] = experiment
    either = {"anyOf": [{"$ref": "#/$defs/Experiment"}, {"type": "null"}]}
    return without_titles(
        {"$defs": defs, "type": "object", "propertyNames": NAMES, "additionalProperties": either}
    )


def without_titles(value: Any) -> Any:
    """Return a schema without pydantic's titles, which only repeat the key."""
    if isinstance(value, list):
        return [without_titles(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_titles(part)
        for key, part in value.items()
        if not (key == "title" and isinstance(part, str))
    }


def _choice(kind: str, more: Schema | None = None) -> Schema:
    """Return the schema of a choice: a name, a name with its options, or options of a name that is
    given elsewhere.

    The properties `more` are added to the options of every name.
    """
    options = {name: _options(kind, name) | (more or {}) for name in registry.names(kind)}
    named = [
        object_schema({"name": {"const": name}} | own) | {"required": ["name"]}
        for name, own in options.items()
    ]
    return {"anyOf": [{"enum": list(options)}, *named, any_choice(options.values())]}


def any_choice(options: Iterable[Schema]) -> Schema:
    """Return the schema of an object with any of the keys in several sets of properties."""
    schemas: dict[str, list[Schema]] = {}
    for properties in options:
        for key, schema in properties.items():
            if schema not in schemas.setdefault(key, []):
                schemas[key].append(schema)
    return object_schema(
        {
            key: values[0] if len(values) == 1 else {"anyOf": values}
            for key, values in schemas.items()
        }
    )


def _options(kind: str, name: str) -> Schema:
    return registry.options_model(kind, name).model_json_schema().get("properties", {})


def object_schema(properties: Schema) -> Schema:
    """Return the schema of an object with only these properties."""
    return {"type": "object", "properties": properties, "additionalProperties": False}
