"""The JSON schemas of params.yaml and of experiments.yaml, for editors: keys, what may be chosen by name, options and bounds.

No key of an experiment is required, nor an option, nor the name of a choice: a variant, or a scale, gives what it changes. What
hangs on several keys at once, or on the data, only the code checks. That of scales.yaml refers to that of experiments.yaml.
"""

from collections.abc import Iterable
from typing import Any

from fedrepro.config import registry
from fedrepro.config.inheritance import VARIANTS
from fedrepro.config.params import Experiment, Params
from fedrepro.config.types import NAME

Schema = dict[str, Any]
NAMES: Schema = {"pattern": f"^{NAME}$"}
CHOSEN = {"dataset": "datasets", "partition": "partitions", "model": "models", "schedule": "schedules", "task": "tasks"}


def settings_schema() -> Schema:
    described = Params.model_json_schema()
    scale = described["$defs"]["Scale"]
    scale["anyOf"] = [{"required": ["like"]}, {"required": scale.pop("required")}]
    described["properties"]["scales"]["propertyNames"] = described["properties"]["papers"]["items"] = {"type": "string"} | NAMES
    return without_titles(described)


def experiments_schema() -> Schema:
    experiment = Experiment.model_json_schema()
    defs = experiment.pop("$defs") | {kind: _choice(kind) for kind in CHOSEN.values()}
    del defs["Choice"]
    experiment.pop("required")
    properties = experiment["properties"]
    for part in (defs["Proxy"], defs["PixelScaling"]["anyOf"][1]):
        part.pop("required")
    for key, kind in CHOSEN.items():
        also = {name: properties[key][name] for name in ("default", "description") if name in properties[key]}
        properties[key] = {"$ref": f"#/$defs/{kind}"} | also
    series = {key: value for key, value in properties.items() if key not in ("series", "seeds", "studies")}
    defs |= {
        "overrides": object_schema(series),
        "algorithms": _choice("algorithms", {"overrides": {"$ref": "#/$defs/overrides"}}),
    }
    properties["series"]["additionalProperties"] = {"$ref": "#/$defs/algorithms"}
    studies = {
        name: {"anyOf": [object_schema(_options("studies", name)), {"type": "null"}]} for name in registry.names("studies")
    }
    properties["studies"] = object_schema(studies)
    properties[VARIANTS] = {"$ref": "#", "description": "experiments that take over these settings, with what they change"}
    defs["Experiment"] = experiment
    either = {"anyOf": [{"$ref": "#/$defs/Experiment"}, {"type": "null"}]}
    return without_titles({"$defs": defs, "type": "object", "propertyNames": NAMES, "additionalProperties": either})


def without_titles(value: Any) -> Any:
    """Without pydantic's titles, which say the key once more."""
    if isinstance(value, list):
        return [without_titles(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: without_titles(part) for key, part in value.items() if not (key == "title" and isinstance(part, str))}


def _choice(kind: str, more: Schema | None = None) -> Schema:
    """A name, alone or with its options, or some options of whatever it is that another place names; `more` goes with all."""
    options = {name: _options(kind, name) | (more or {}) for name in registry.names(kind)}
    named = [object_schema({"name": {"const": name}} | own) | {"required": ["name"]} for name, own in options.items()]
    return {"anyOf": [{"enum": list(options)}, *named, any_choice(options.values())]}


def any_choice(options: Iterable[Schema]) -> Schema:
    """Any keys of whichever of these it is that another place names."""
    every: dict[str, list[Schema]] = {}
    for own in options:
        for key, value in own.items():
            every.setdefault(key, []).extend([value] if value not in every.get(key, []) else [])
    return object_schema({key: values[0] if len(values) == 1 else {"anyOf": values} for key, values in every.items()})


def _options(kind: str, name: str) -> Schema:
    return registry.options_model(kind, name).model_json_schema().get("properties", {})


def object_schema(properties: Schema) -> Schema:
    """With these keys and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}
