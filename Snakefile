# Reproduces tables and figures: `snakemake --cores 2`. Settings are in params.yaml and in a folder of workflow/papers for each
# paper. Targets: all (default), train, data, a paper, and a figure or table as `<paper>_<name>`, or as `<name>` if no other
# paper has it.

import gc
import re
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fedrepro.cli.terminal import Event, exit_on_signals

began = time.time()
if workflow.is_main_process:
    exit_on_signals()  # first: the other imports take a second
    shell.prefix(
        "trap '' INT HUP; exec "
    )  # jobs get SIGTERM from this process, in place of the terminal's signals

from fedrepro.cli.terminal import summary
from fedrepro.config import strict_yaml
from fedrepro.core.errors import UserError, stops
from fedrepro.report.documents import pdf

if workflow.is_main_process:
    gc.disable()  # until jobs run: modules, plans and jobs stay, and looking for garbage takes a quarter of the time
    if match := re.search(r"[\s'\"\\$&|;<>()*?`]", sys.executable):
        raise WorkflowError(
            f"{sys.executable}: Snakemake cannot start scripts with a Python whose path has a {match[0]!r}; move the folder, or have "
            "uv install elsewhere (the variable UV_PROJECT_ENVIRONMENT)"
        )
    try:
        # Snakemake's own reader takes the last of two equal keys, and expands all aliases
        strict_yaml.read(Path("params.yaml"))
    except UserError as error:
        raise WorkflowError(str(error)) from None


configfile: "params.yaml"


report: "workflow/report/overview.rst"


# used with `--sdm apptainer`; docs/container.md says how to build it
container: "fedrepro.sif"


# on a cluster these run on the machine of the snakemake process: they are short, and nodes may lack a network
localrules:
    fetch,
    prepare,
    page,
    pdf,
    notebooks,


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/artifacts.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        f"{reports.folder}/index.html",
        [f"{reports.folder}/report.pdf"] if pdf.is_available() else [],
        list(reports.notebooks),


onstart:
    exit_on_signals()  # again: Snakemake's scheduler has taken SIGTERM, to wait for all running jobs
    gc.enable()


onsuccess:
    mirror_runs()
    text = summary.closing_message(made(), reports.folder, time.time() - began)
    logger.info(text, extra={"event": Event.END})


onerror:
    work.restore_summaries()
    if stops:
        raise SystemExit
    logger.error(
        "Not done. Finished work is kept; the same command continues with the rest.",
        extra={"event": Event.END},
    )
