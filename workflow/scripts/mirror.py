"""Copy finished runs to MLflow (rule mirror). A server that does not answer costs a warning; results are in files anyway."""

import json
from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.runs import mlflow_mirror

    counts = mlflow_mirror.mirror(snakemake.params.runs, snakemake.params.uri, snakemake.params.scale)
    Path(snakemake.output[0]).write_text(json.dumps(vars(counts), indent=1) + "\n", encoding="utf-8")
