"""Snakemake -> newcomers.conduct."""

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import newcomers
    from fedrepro.experiments import Paths

    newcomers.conduct(snakemake.params.studies, Paths(), mirror=snakemake.params.mirror, device=snakemake.params.device)
