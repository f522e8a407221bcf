"""Fetch the raw files of a data set (rule fetch)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.data import datasets

    datasets.fetch(snakemake.wildcards.dataset, Path("data/raw"), snakemake.params.source.mirror)
