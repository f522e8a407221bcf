"""Snakemake -> studying.conduct."""

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import studying
    from fedrepro.experiments import Paths

    studying.conduct(snakemake.params.cases, Paths(), mirror=snakemake.params.mirror, device=snakemake.params.device)
