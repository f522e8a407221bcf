"""Snakemake -> artifacts.write_verdicts."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import artifacts

    out, data = Path(snakemake.output[0]).parent, Path(snakemake.params.data)
    artifacts.write_verdicts(snakemake.params.paper, snakemake.wildcards.paper, data, out)
