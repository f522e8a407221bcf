"""Snakemake -> report.documents.notebook.compose, notebook.execute."""

import logging
from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report.documents import notebook

    params, paper, out = snakemake.params, snakemake.wildcards.paper, Path(snakemake.output[0])
    if notebook.has_user_changes(out):
        logging.getLogger("fedrepro").warning("%s was worked on and stays as it is; move it, and another is written", out)
        out.touch()
    else:
        written = notebook.compose(params.spec, paper, snakemake.wildcards.figure, params.scale)
        notebook.execute(written, out)
