"""Write and execute notebooks on the numbers of figures (rule notebooks)."""

import logging
from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report.documents import notebook

    params, composed = snakemake.params, {}
    for out in map(Path, snakemake.output):
        if notebook.has_user_changes(out):
            logging.getLogger("fedrepro").warning(
                "%s has been changed and stays as it is; move it, and a new one is written", out
            )
            out.touch()
        else:
            composed[out] = notebook.compose(*params.shown[out.stem], params.scale)
    if composed:
        notebook.execute(composed)
