"""Snakemake -> datasets.prepare."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import datasets

    name = snakemake.wildcards.dataset
    datasets.prepare(name, Path("data/raw"), Path("data/prepared") / name)
