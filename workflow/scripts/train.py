"""Snakemake -> training.train."""

from _log import failures_logged

with failures_logged(snakemake) as failures:
    from fedrepro import training
    from fedrepro.paths import Paths

    given = {key: snakemake.params[key] for key in ("mirror", "device", "gpus", "executor", "checkpoint_seconds")}
    given |= {"snapshots": snakemake.params.snapshots.rounds, "cores": snakemake.threads}
    training.train(snakemake.params.runs, Paths(), **given, failures=failures)
