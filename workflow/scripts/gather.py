"""Snakemake -> results.gather."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import results

    params, out = snakemake.params, Path(snakemake.output[0]).parent
    results.gather(params.note, params.series, out, params.get("tables"))
