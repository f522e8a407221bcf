"""Snakemake -> notebook.execute."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import notebook

    notebook.execute(Path(snakemake.input.notebook), Path(snakemake.output[0]), scale=snakemake.params.scale)
