"""A strict YAML reader: it refuses, naming the line, what two readers could understand
differently."""

import re
import unicodedata
from pathlib import Path
from typing import Any

import yaml

from fedrepro.core.errors import UserError, error_prefix
from fedrepro.core.files import read_file

# CSafeLoader is ten times as fast, if PyYAML was built with it
FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES = 1 << 24  # of a file: a hundred times the largest here
MAX_DEPTH = 60  # levels; deeper ones would exhaust the stack
MAX_LETTERS = 80  # of a number: 64 bits and the signs between them
# Snakemake, which also reads params.yaml, would run the code of a file with this key as a template
TEMPLATE = "__use_yte__"
OCTAL = re.compile(r"[-+]?0[0-9_]+")
# line breaks of YAML alone: what follows one may look like part of a comment
BREAKS = re.compile("[\x85\u2028\u2029]")
# Unicode's categories of controls, directions, joins, halves of letters and breaks
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
TAG = "tag:yaml.org,2002:"
# types that JSON, and so our settings, do not have
NO_SETTINGS = ("binary", "timestamp", "set", "omap", "pairs")


class _StrictLoader(FAST):  # pyright: ignore[reportGeneralTypeIssues] - the base class is chosen when this is imported
    """A loader that raises UserError, without the file's name, for repeated keys and for values
    that read unlike they look."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            if key.tag == f"{TAG}merge":
                continue
            if key.tag != f"{TAG}str":
                raise _refused(key, "a key that is no text; write it in quotes")
            if key.value in seen:
                raise _refused(
                    key, f"the key {key.value} is here and in line {seen[key.value]}; leave one"
                )
            if key.value == TEMPLATE:
                raise _refused(
                    key, f"the key {TEMPLATE} would make a template of the file; leave it out"
                )
            seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def construct_yaml_str(self, node: Any) -> str:
        text = super().construct_yaml_str(node)
        if hidden := hidden_letter(text):
            raise _refused(node, hidden)
        return text

    def construct_yaml_int(self, node: Any) -> int:
        if (
            len(_plain(node).value) > MAX_LETTERS
            or super().construct_yaml_int(node).bit_length() > 63
        ):
            raise _refused(node, "a whole number of more than 64 bits")
        return super().construct_yaml_int(node)

    def construct_yaml_float(self, node: Any) -> float:
        return super().construct_yaml_float(_plain(node))

    def construct_no_setting(self, node: Any) -> None:
        raise _refused(
            node,
            f"YAML reads a {node.tag.removeprefix(TAG)}, which no setting is; write a text in "
            f"quotes",
        )


for _name in ("str", "int", "float"):
    _StrictLoader.add_constructor(
        f"{TAG}{_name}", getattr(_StrictLoader, f"construct_yaml_{_name}")
    )
for _name in NO_SETTINGS:
    _StrictLoader.add_constructor(f"{TAG}{_name}", _StrictLoader.construct_no_setting)


def hidden_letter(text: str) -> str:
    """Return what is wrong with a text that has a control or invisible letter, else an empty
    text."""
    found = (
        ""
        if text.isprintable()
        else next((a for a in text if unicodedata.category(a) in HIDDEN and a not in "\n\t"), "")
    )
    return (
        f"the invisible character U+{ord(found):04X} makes the text read other than it looks"
        if found
        else ""
    )


def _plain(node: Any) -> Any:
    if OCTAL.fullmatch(node.value):
        raise _refused(
            node,
            f"{node.value} would be read as a number of base 8; write it without the 0 in front, "
            f"or in quotes",
        )
    if SEXAGESIMAL.fullmatch(node.value):
        raise _refused(
            node, f"{node.value} would be read as a number of base 60; write it in quotes"
        )
    return node


def _refused(node: Any, problem: str) -> UserError:
    return UserError(f"line {node.start_mark.line + 1}: {problem}")


def read(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises UserError if the file is missing, does not parse or
    could be misread."""
    try:
        text = read_file(path, "choose another file", MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file; run in the repository's top folder or name the file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text: {error}") from None
    try:
        with error_prefix(str(path)):
            values = load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected keys and values at the top level")
    return values


def load(text: str) -> Any:
    """Parse a YAML text. Raises UserError, beginning with the line, for refused contents; YAMLError
    for invalid YAML."""
    if match := BREAKS.search(text):
        raise UserError(
            f"line {text.count(chr(10), 0, match.start()) + 1}: {hidden_letter(match[0])}"
        )
    _check_structure(text)
    try:
        return yaml.load(text, _StrictLoader)  # a SafeLoader
    # of a value that does not fit its tag
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"a tag such as !!bool does not fit its value ({error}). Remove the tag."
        ) from None


def _check_structure(text: str) -> None:
    """Raise UserError for a text that is nested too deeply, and for aliases, which may make it much
    larger than it looks."""
    depth = 0
    for event in yaml.parse(text, FAST):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MAX_DEPTH:
            raise _refused(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event, f"*{event.anchor} repeats text from elsewhere; write it out")
