"""Snakemake -> training.train."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro.runs.paths import Paths
    from fedrepro.training import runner

    given = {key: snakemake.params[key] for key in ("mirror", "device", "gpus", "executor", "checkpoint_seconds")}
    given |= {"snapshots": snakemake.params.snapshots.rounds, "cores": snakemake.threads}
    runner.train(snakemake.params.runs, Paths(), **given, failures=failures)
