# What all rules below read is one object, made from the settings: src/fedrepro/experiments/workflow.py.
from itertools import filterfalse

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from fedrepro.cli.terminal import log_filters
from fedrepro.core.errors import UserError
from fedrepro.experiments.workflow import DATA_PRIORITY, Capacity, Workflow
from fedrepro.runs import mlflow_mirror

given = dict(workflow.global_resources.unwrapped_items())
try:
    capacity = Capacity(given["_nodes"], given["_cores"], given.get("gpu"))
    work = Workflow(config, capacity, workflow.is_main_process, workflow.output_settings.dryrun)
except UserError as error:
    raise WorkflowError(str(error)) from None
reports = work.reports
if work.gpu_slots:
    workflow.global_resources.setdefault("gpu", work.gpu_slots)
if workflow.scheduling_settings and not work.cluster:
    # with a limit each job that ends leaves one more timer, after which all that waits is looked at again, every second until the end
    workflow.scheduling_settings.max_jobs_per_timespan = None


wildcard_constraints:
    dataset="[a-z0-9_]+",
    prepared="[a-z0-9_-]+",
    paper="|".join(work.papers),
    figure="[a-z0-9_]+",


for name, files in work.targets.items():

    rule:
        name:
            name
        input:
            files,


def unrecorded(value):
    """Return a parameter that Snakemake does not store with each output of a job, as it does not for a function of these: of
    lists of runs that would be megabytes. What has to run again when it changes says so by another one, or by its name."""
    return lambda wildcards, output: value


def reported(paper, file):
    """An artifact's file, marked for `snakemake --report` where that shows it."""
    shown = reports.snakemake_labels(paper, file)
    return report(update(file), **shown) if shown else update(file)


def made():
    """The files that jobs have made."""
    return [str(path) for job in workflow.dag.finished_jobs for path in job.output]


def mirror_rest():
    """Copy to MLflow what was trained but not mirrored by a job, and say so where that fails."""
    if problem := work.mlflow_problem(made()):
        logger.warning(f"MLflow is not up to date (`-R mirror` tries again): {problem}")


if workflow.is_main_process:
    for warning in work.warnings:
        logger.warning(warning)
    cores = work.slots() * (work.params.cores_per_run if work.cluster else 1)
    logger.addFilter(log_filters.announce_cost(work.costs_of_rules, cores))
    logger.addFilter(
        log_filters.suggest_targets(
            ["all", *work.targets],
            lambda: filterfalse(workflow.is_rule, workflow.dag_settings.targets),
        )
    )
    mlflow_mirror.remove_stale_marker(work.params.mlflow_uri, work.mirrored)
