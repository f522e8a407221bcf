"""Snakemake -> artifacts.draw_figures."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import artifacts

    out = Path(snakemake.output[0]).parent
    artifacts.draw_figures(snakemake.params.paper, [snakemake.params.key], Path(snakemake.params.data), out)
