"""Snakemake -> results.gather."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import results

    results.gather(snakemake.params.note, snakemake.params.series, Path(snakemake.output[0]).parent)
