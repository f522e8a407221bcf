"""Snakemake -> conducting.conduct."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro.experiments import study_runner
    from fedrepro.runs.paths import Paths

    given = {key: snakemake.params[key] for key in ("mirror", "device", "gpus")}
    study_runner.conduct(snakemake.params.cases, Paths(), **given, together=True, failures=failures)
