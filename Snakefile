# Reproduces tables and figures: `snakemake --cores 2`. What runs, and how large, stands in params.yaml; what each artifact
# consists of in workflow/experiments/. Targets: all (default), a paper, train, data, and a figure or table as `<paper>_<name>`, or
# by its own name while only one paper has it.

import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fedrepro import plainyaml
from fedrepro.errors import UserError

if workflow.is_main_process:
    if found := re.search(r"[\s'\"\\$&|;<>()*?`]", sys.executable):
        raise WorkflowError(
            f"{sys.executable}: Snakemake cannot start scripts with a Python whose path has a {found[0]!r}; move the folder, or have "
            "uv install elsewhere (the variable UV_PROJECT_ENVIRONMENT)"
        )
    try:
        # Snakemake's own reader takes the last of two keys, and walks through all that aliases repeat
        plainyaml.read(Path("params.yaml"))
    except UserError as error:
        raise WorkflowError(str(error)) from None


configfile: "params.yaml"


report: "workflow/report/overview.rst"


# with `--sdm apptainer` jobs run in it; README, "Container", says how it is built
container: "fedrepro.sif"


# on a cluster these stay where snakemake runs: they are short, and nodes may lack a network
localrules:
    fetch,
    prepare,
    artifact,
    page,
    pdf,
    crate,
    notebook,
    mirror,


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        f"{REPORTS}/index.html",
        [f"{REPORTS}/report.pdf"] if typeset.available() else [],
        NOTEBOOKS,
        MIRRORED,


onsuccess:
    show_runs(made())
    told = ending.told(made(), Path(REPORTS), Path(MADE), time.time() - BEGAN)
    logger.info(told, extra={"event": Event.END})


onerror:
    # Snakemake deleted the summaries of a job that failed, also those of runs that were trained
    training.summarise(piece.work for piece in PIECES)
    show_runs(made())
    logger.error(
        "Not done. What is finished stays: the same command goes on with the rest.",
        extra={"event": Event.END},
    )
