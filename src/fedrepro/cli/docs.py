"""The page docs/configuration.md: every setting with its default and description, and every name that may be chosen; the JSON
schemas of the settings' files; and what of each paper is registered."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

from fedrepro.config import registry
from fedrepro.config.json_schema import experiments_schema, settings_schema
from fedrepro.config.params import Experiment, Params, PixelScaling, Proxy, Scale, Tuning, Validation, read_params
from fedrepro.config.types import Frozen
from fedrepro.core.files import atomic_write
from fedrepro.experiments import registered
from fedrepro.report.paper import artifacts_schema

PAGE, SCHEMAS = Path("docs/configuration.md"), Path("workflow/schemas")
INTRO = """<!-- written by `uv run fedrepro docs` from the settings' models; do not edit -->
# Configuration

A misspelt key or an impossible value ends a command before it begins, with file, key and the valid values.
"""
MODELS: tuple[tuple[str, type[Frozen]], ...] = (
    ("params.yaml", Params),
    ("A scale", Scale),
    ("An experiment", Experiment),
    ("`proxy` of an experiment", Proxy),
    ("`pixel_scaling` of an experiment", PixelScaling),
    ("`validation` of an experiment", Validation),
    ("`tuning` of an experiment", Tuning),
)
KINDS = {
    "algorithms": "Methods, in `series`",
    "datasets": "`dataset`",
    "partitions": "`partition`",
    "models": "`model`",
    "schedules": "`schedule`",
    "tasks": "`task`",
    "studies": "`studies`",
}


def texts(root: Path = Path()) -> dict[Path, str]:
    """Return the generated files of the repository `root`: the page, the JSON schemas, and each paper's registered.json."""
    schemas = {"params": settings_schema, "experiments": experiments_schema, "artifacts": artifacts_schema}
    files = {SCHEMAS / f"{name}.schema.json": json.dumps(schema(), indent=1) + "\n" for name, schema in schemas.items()}
    papers = registered.texts(read_params(root / "params.yaml"))
    return {PAGE: page()} | files | {path.relative_to(root): text for path, text in papers.items()}


def write(root: Path = Path()) -> list[Path]:
    """Write the generated files that are out of date in the repository `root`, and return them."""
    written = []
    for path, text in texts(root=root).items():
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text:
            with atomic_write(root / path) as temporary:
                temporary.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def page() -> str:
    """Return the text of the page."""
    settings = [f"## {title}\n\n{_settings(model)}" for title, model in MODELS]
    choices = [f"## {title}\n\n{_choices(kind)}" for kind, title in KINDS.items()]
    return "\n".join([INTRO, *settings, *choices])


def _settings(model: type[Frozen]) -> str:
    """Return a Markdown table with a row for each field of a model."""
    schema = model.model_json_schema()
    schema = schema if "properties" in schema else schema["anyOf"][-1]  # anyOf: a plain name, or a mapping
    required = schema.get("required", ())
    rows = []
    for key, field in schema["properties"].items():
        default = "required" if key in required else _code(field.get("default"))
        rows.append((f"`{key}`", _values(field), default, field.get("description", "")))
    return _table(("key", "values", "default", "meaning"), rows)


def _values(field: dict[str, Any]) -> str:
    """Return the valid values of a field in words, from its JSON schema."""
    if "anyOf" in field:
        return " or ".join(_values(one) for one in field["anyOf"])
    if "enum" in field:
        return ", ".join(_code(value) for value in field["enum"])
    if "const" in field:
        return _code(field["const"])
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2].lower()
    if field.get("type") == "array":
        return f"list of {_values(field.get('items', {}))}"
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    limits = [f"{words} {field[key]}" for key, words in bounds.items() if key in field]
    return " ".join([field.get("type", "mapping"), *limits])


def _choices(kind: str) -> str:
    """Return a Markdown table with a row for each name of a kind, with its options and their defaults."""
    rows = []
    for name in registry.names(kind):
        docstring = " ".join((inspect.getdoc(registry.find(kind, name)) or "").split())
        summary = re.split(r"(?<=\.)\s+(?=[A-Z`])", docstring)[0]
        model = registry.options_model(kind, name)
        fields = model.model_json_schema().get("properties", {})
        required = {key for key, field in model.model_fields.items() if field.is_required()}
        options = [f"`{key}`{' (required)' if key in required else _default(field)}" for key, field in fields.items()]
        rows.append((f"`{name}`", summary, ", ".join(options)))
    return _table(("name", "what it is", "options and their defaults"), rows)


def _default(field: dict[str, Any]) -> str:
    return f" {json.dumps(field['default'], ensure_ascii=False)}" if "default" in field else ""


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if text else "empty"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    text = ""
    for line in (head, ("---",) * len(head), *rows):
        cells = " | ".join(cell.replace("|", r"\|") for cell in line)
        text += f"| {cells} |\n"
    return text
