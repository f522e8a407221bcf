"""Templates of the documents."""

from typing import Any

import jinja2


def environment(**options: Any) -> jinja2.Environment:
    """Of the folder `templates`; a name that a template does not get is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("fedrepro.report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
