"""Snakemake -> experiments.partition_jobs.bring, report.documents.build.compose."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.experiments import partition_jobs
    from fedrepro.report.documents import build

    whole = snakemake.params.whole  # papers without an experiment whose numbers may be of before
    partitions = {paper: partition_jobs.bring(maps, paper in whole) for paper, maps in snakemake.params.partitions.items()}
    build.compose(snakemake.params.papers, Path(snakemake.params.folder), partitions)
