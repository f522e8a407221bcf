"""Snakemake -> conducting.conduct."""

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro import conducting
    from fedrepro.experiments import Paths

    conducting.conduct(snakemake.params.cases, Paths(), mirror=snakemake.params.mirror, device=snakemake.params.device)
