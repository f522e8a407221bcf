"""A strict YAML reader: it refuses, naming the line, what two readers could understand differently."""

import re
from pathlib import Path
from typing import Any

import yaml

from fedrepro.core.errors import UserError

FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # CSafeLoader is ten times as fast, if PyYAML was built with it
MAX_DEPTH = 60  # levels; deeper ones would exhaust the stack
MAX_DIGITS = 18
TEMPLATE = "__use_yte__"  # Snakemake, which also reads params.yaml, would run the code of a file with this key as a template
OCTAL = re.compile(r"[-+]?0[0-9_]+")
HIDDEN = re.compile("[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")  # directions, breaks and joins
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")


class _StrictLoader(FAST):  # pyright: ignore[reportGeneralTypeIssues] - the base class is chosen when this is imported
    """A loader that raises UserError, without the file's name, for repeated keys and for numbers that read unlike they look."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _refused(key, f"the key {key.value} is here and in line {seen[key.value]}; leave one")
                if key.value == TEMPLATE:
                    raise _refused(key, f"the key {TEMPLATE} would make a template of the file; leave it out")
                seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> int:
        return super().construct_yaml_int(_plain(node))

    def construct_yaml_float(self, node: Any) -> float:
        return super().construct_yaml_float(_plain(node))

    def construct_yaml_binary(self, node: Any) -> bytes:
        raise _refused(node, "!!binary, which would be taken for a text; write the text itself")


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_yaml_int)
_StrictLoader.add_constructor("tag:yaml.org,2002:float", _StrictLoader.construct_yaml_float)
_StrictLoader.add_constructor("tag:yaml.org,2002:binary", _StrictLoader.construct_yaml_binary)


def _plain(node: Any) -> Any:
    if OCTAL.fullmatch(node.value):
        raise _refused(node, f"{node.value} would be read as a number of base 8; write it without the 0 in front, or in quotes")
    if SEXAGESIMAL.fullmatch(node.value):
        raise _refused(node, f"{node.value} would be read as a number of base 60; write it in quotes")
    if node.tag.endswith(":int") and sum(map(str.isdigit, node.value)) > MAX_DIGITS:
        raise _refused(node, f"a whole number of more than {MAX_DIGITS} digits")
    return node


def _refused(node: Any, problem: str) -> UserError:
    return UserError(f"line {node.start_mark.line + 1}: {problem}")


def read(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises UserError if the file is missing, does not parse or could be misread."""
    try:
        values = load(path.read_text(encoding="utf-8"))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run in the repository's top folder or name the file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected keys and values at the top level")
    return values


def load(text: str) -> Any:
    """Parse a YAML text. Raises UserError, beginning with the line, for refused contents; YAMLError for invalid YAML."""
    if match := HIDDEN.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise UserError(f"line {line}: the invisible character U+{ord(match[0]):04X} makes the text read other than it looks")
    _check_structure(text)
    try:
        return yaml.load(text, _StrictLoader)  # a SafeLoader
    except (AttributeError, KeyError, ValueError) as error:  # of a value that does not fit its tag
        raise UserError(f"a tag such as !!bool does not fit its value ({error}). Remove the tag.") from None


def _check_structure(text: str) -> None:
    """Raise UserError for a text that is nested too deeply, and for aliases, which may make it much larger than it looks."""
    depth = 0
    for event in yaml.parse(text, FAST):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _refused(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event, f"*{event.anchor} repeats text from elsewhere; write it out")
