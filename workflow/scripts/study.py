"""Snakemake -> conducting.conduct."""

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import conducting
    from fedrepro.experiments import Paths

    conducting.conduct(snakemake.params.cases, Paths(), mirror=snakemake.params.mirror, device=snakemake.params.device)
