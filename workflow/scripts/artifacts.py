"""Snakemake -> report.incremental.refresh."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report import incremental
    from fedrepro.report.documents import snakemake_captions

    params = snakemake.params
    incremental.refresh(params.paper, params.wanted, Path(params.folder), params.gathered, Path(params.stamps), params.code)
    if snakemake.params.get("captions"):
        snakemake_captions.write(params.paper, Path(params.folder), Path(params.captions))
    Path(snakemake.output.stamp).touch()
