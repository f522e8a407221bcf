# The value `work`, made from the settings, has everything that the rules read: src/fedrepro/experiments/workflow.py.
import sys
from itertools import filterfalse

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from fedrepro.cli.terminal import log_filters
from fedrepro.core.errors import UserError
from fedrepro.experiments.request import Command, read_command
from fedrepro.experiments.workflow import DATA_PRIORITY, Capacity, plan_workflow

resources = dict(workflow.global_resources.unwrapped_items())
try:
    capacity = Capacity(resources["_nodes"], resources["_cores"], resources.get("gpu"))
    command = read_command(sys.argv[1:]) if workflow.is_main_process else Command()
    work = plan_workflow(config, command, capacity, workflow.is_main_process)
except UserError as error:
    raise WorkflowError(str(error)) from None
reports = work.reports
if work.limits.gpu_slots:
    workflow.global_resources.setdefault("gpu", work.limits.gpu_slots)
if workflow.scheduling_settings and not capacity.nodes:
    # with a limit, each finished job adds a timer after which all waiting jobs are examined again, every second until the end
    workflow.scheduling_settings.max_jobs_per_timespan = None


wildcard_constraints:
    dataset="[a-z0-9_]+",
    prepared="[a-z0-9_/]+",
    paper="|".join(work.papers),
    figure="|".join({key for spec in work.papers.values() for key in spec.figures}),


for name, files in work.targets.items():

    rule:
        name:
            name
        input:
            files,


def unrecorded(value):
    """Return a parameter as a function, which Snakemake does not store with each output: lists of runs would be megabytes.

    A change of it does not cause the job to run again; another parameter, or the rule's name, has to.
    """
    return lambda wildcards, output: value


def reported(paper, file):
    """Return an artifact's file, marked for `snakemake --report` if that shows it."""
    labels = reports.snakemake_labels(paper, file)
    return report(update(file), **labels) if labels else update(file)


def made():
    """Return the output files of finished jobs."""
    return [str(path) for job in workflow.dag.finished_jobs for path in job.output]


def mirror_runs():
    """Copy finished runs to MLflow; warn if that fails."""
    if problem := work.mlflow_problem():
        logger.warning(
            f"MLflow is not up to date (`snakemake --cores 1 mirror` tries again): {problem}"
        )


if workflow.is_main_process:
    for warning in work.warnings:
        logger.warning(warning)
    cores = work.limits.slots * (work.params.cores_per_run if capacity.nodes else 1)
    logger.addFilter(log_filters.explain_lock)
    logger.addFilter(log_filters.announce_cost(work.costs_of_rules, cores))
    logger.addFilter(
        log_filters.suggest_targets(
            ["all", *work.targets],
            lambda: filterfalse(workflow.is_rule, workflow.dag_settings.targets),
        )
    )
