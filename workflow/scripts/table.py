"""Snakemake -> artifacts.write_tables."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import artifacts

    out = Path(snakemake.output[0]).parent
    artifacts.write_tables(snakemake.params.paper, [snakemake.params.key], Path(snakemake.params.data), out)
