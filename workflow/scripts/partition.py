"""Draw partitions and their heat maps (rules partition_<name>)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.config.params import PartitionConfig
    from fedrepro.report.figures import _partition_heatmap
    from fedrepro.runs.paths import Paths

    configs = {
        Path(path): PartitionConfig.model_validate(values)
        for path, values in snakemake.params.configs.items()
    }
    _partition_heatmap.provide_heatmaps(configs, Paths().prepared)
