"""Snakemake -> training.runner.train."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro.runs.paths import Paths
    from fedrepro.training import runner

    given = {"snapshots": snakemake.params.snapshots.rounds, "cores": snakemake.threads}
    runner.train(snakemake.params.runs, Paths(), **snakemake.params.options, **given, failures=failures)
