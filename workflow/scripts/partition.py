"""Snakemake -> partitions.of_run, stored and drawn."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro import datasets, partitions
    from fedrepro.config import RunConfig
    from fedrepro.report import heatmap

    config = RunConfig.model_validate(snakemake.params.config)
    data = datasets.load(Path("data/prepared") / datasets.key(config.dataset))
    partitions.save(partitions.of_run(config, data), Path(snakemake.output.stored))
    heatmap.draw(config, data, Path(snakemake.output.stored))
