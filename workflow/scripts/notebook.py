"""Snakemake -> notebook.compose, notebook.execute."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report import notebook

    params, paper = snakemake.params, snakemake.wildcards.paper
    written = notebook.compose(params.spec, paper, snakemake.wildcards.figure, params.scale)
    notebook.execute(written, Path(snakemake.output[0]))
