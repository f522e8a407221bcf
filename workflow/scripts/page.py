"""Snakemake -> page.compose."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import page

    page.compose(snakemake.params.papers, Path(snakemake.params.folder), snakemake.params.partitions)
