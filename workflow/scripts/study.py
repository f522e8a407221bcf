"""Make studies of finished runs (the rules of study jobs)."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro.experiments import study_runner
    from fedrepro.runs.paths import Paths

    study_runner.run_studies(
        snakemake.params.study_runs,
        Paths(),
        **snakemake.params.options,
        together=True,
        failures=failures,
    )
