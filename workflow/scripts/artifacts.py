"""Snakemake -> upkeep.refresh."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report.documents import snakemake_captions as captions
    from fedrepro.report import incremental as upkeep

    params = snakemake.params
    upkeep.refresh(params.paper, params.wanted, Path(params.folder), params.gathered, Path(params.stamps), params.code)
    if snakemake.params.get("captions"):
        captions.write(params.paper, Path(params.folder), Path(params.captions))
    Path(snakemake.output.stamp).touch()
