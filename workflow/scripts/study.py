"""Snakemake -> conducting.conduct."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro import conducting
    from fedrepro.paths import Paths

    given = {key: snakemake.params[key] for key in ("mirror", "device", "gpus")}
    conducting.conduct(snakemake.params.cases, Paths(), **given, together=True, failures=failures)
