"""Snakemake -> datasets.fetch."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import datasets

    datasets.fetch(snakemake.wildcards.dataset, Path("data/raw"), snakemake.params.mirror)
