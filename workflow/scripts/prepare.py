"""Check and convert the raw files of a data set to arrays (rule prepare)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.data import datasets

    if not snakemake.input:
        datasets.fetch(snakemake.params.dataset, Path("data/raw"))
    datasets.prepare(snakemake.params.dataset, Path("data/raw"), Path(snakemake.output[0]).parent)
