"""Snakemake -> training.train."""

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.training import runner as training
    from fedrepro.runs.paths import Paths

    given = {key: snakemake.params[key] for key in ("mirror", "device", "gpus", "executor", "checkpoint_seconds")}
    given |= {"snapshots": snakemake.params.snapshots.rounds, "cores": snakemake.threads}
    training.train(snakemake.params.runs, Paths(), **given)
