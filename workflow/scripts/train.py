"""Train runs (rules train_<name>)."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro.runs.paths import Paths
    from fedrepro.training import runner

    options = {"snapshots": snakemake.params.snapshots, "cores": snakemake.threads}
    runner.train(
        snakemake.params.runs, Paths(), **snakemake.params.options, **options, failures=failures
    )
