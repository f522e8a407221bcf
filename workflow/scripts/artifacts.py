"""Snakemake -> upkeep.refresh."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import upkeep

    params = snakemake.params
    upkeep.refresh(params.paper, params.wanted, Path(params.folder), params.gathered, Path(params.stamps), params.code)
    Path(snakemake.output.stamp).touch()
