"""Write and execute a notebook on the numbers of a figure (rule notebook)."""

import logging
from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report.documents import notebook

    params, paper, out = snakemake.params, snakemake.wildcards.paper, Path(snakemake.output[0])
    if notebook.has_user_changes(out):
        logging.getLogger("fedrepro").warning("%s has been changed and stays as it is; move it, and a new one is written", out)
        out.touch()
    else:
        composed = notebook.compose(params.spec, paper, snakemake.wildcards.figure, params.scale)
        notebook.execute(composed, out)
