"""The Jinja environment of the documents."""

from collections.abc import Mapping
from typing import Any

import jinja2

# delimiters for documents in which braces have a meaning
BRACKETS = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}


def environment(
    autoescape: bool = False, options: Mapping[str, Any] | None = None
) -> jinja2.Environment:
    """Return an environment for the folder `templates`, in which an undefined name is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("fedrepro.report"),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options or {},
    )
