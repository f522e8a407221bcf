"""Templates of the documents."""

from typing import Any

import jinja2

# where a document has braces of its own
BRACKETS = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}


def environment(loader: jinja2.BaseLoader | None = None, **options: Any) -> jinja2.Environment:
    """Of the folder `templates`, or another loader's; a name that a template does not get is an error."""
    return jinja2.Environment(
        loader=loader or jinja2.PackageLoader("fedrepro.report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
