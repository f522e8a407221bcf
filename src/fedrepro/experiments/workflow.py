"""The work of the active scale, as Snakemake's rules read it: settings -> plan -> request ->
missing work -> jobs.

The main process plans and packs jobs. A process that does one of them makes the same value without
costs, and reads the work of its job. Nothing here needs Snakemake.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from fedrepro.config import registry
from fedrepro.config.params import DataSource, Params, with_papers
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.formatting import duration
from fedrepro.data import datasets
from fedrepro.experiments import (
    cost,
    jobs,
    partition_jobs,
    plan,
    request,
    resolve,
    study_plan,
    trials,
)
from fedrepro.experiments.jobs import Job, Work
from fedrepro.experiments.partition_jobs import PartitionJob
from fedrepro.experiments.plan import Plan, PlannedExperiment
from fedrepro.experiments.reports import Reports
from fedrepro.experiments.request import Command, Request
from fedrepro.report import paper as spec
from fedrepro.report.paper import Paper
from fedrepro.runs import mlflow_mirror
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind
from fedrepro.runs.run import Run
from fedrepro.training import devices, runner

BUILD = Path(".snakemake")  # for packed jobs, which are not committed
DATA_PRIORITY = 10**9  # of jobs for which all training waits


@dataclass(frozen=True)
class Capacity:
    """What Snakemake may use, as the command line gives it."""

    nodes: int | None = None  # jobs that a cluster takes at once; None: jobs run on this machine
    cores: int | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class JobLimits:
    """What a job may use, and how many may run at once."""

    slots: int  # jobs that may run at once, with one core each
    train_slots: int  # jobs that may train at once
    gpu_slots: int | None  # jobs that may train on this machine's GPUs at once
    gpus_per_job: int
    cores_per_run: int


def job_limits(params: Params, capacity: Capacity) -> JobLimits:
    """Return the limits of jobs: a run has the cores that are set on a cluster, all of this
    machine, or one beside a GPU."""
    cluster, uses_gpu = bool(capacity.nodes), devices.planned_device(params.device).type != "cpu"
    gpu_slots = None
    if uses_gpu and not cluster:
        gpu_slots = (
            capacity.gpus or len(devices.gpu_indices(params.gpus)) * params.gpus.jobs or None
        )
    gpus_per_job = int(params.device == "cuda" if cluster else uses_gpu)
    cores_per_run = 1 if gpus_per_job else params.cores_per_run if cluster else capacity.cores or 1

    def slots(cores: int) -> int:
        count = capacity.nodes or max(1, (capacity.cores or 2) // cores)
        return min(count, gpu_slots or capacity.gpus or count) if gpus_per_job else count

    return JobLimits(
        slots(1),
        slots(params.limit_cores(cores_per_run).cores_per_run),
        gpu_slots,
        gpus_per_job,
        cores_per_run,
    )


@dataclass(frozen=True)
class Workflow:
    """All that the rules read. Paths of finished work name no job."""

    params: Params
    paths: Paths
    papers: Mapping[str, Paper]
    plan: Plan
    trials: Plan  # of values, if they are requested
    request: Request
    limits: JobLimits
    reports: Reports
    left_out: tuple[str, ...]  # sentences on what reports of kept results leave out
    finished_before: frozenset[Path]  # summaries of runs
    train_jobs: tuple[Job, ...]
    study_jobs: tuple[Job, ...]
    partition_jobs: tuple[PartitionJob, ...]

    @property
    def default_papers(self) -> dict[str, Paper]:
        """The papers that pages show."""
        return {paper: self.papers[paper] for paper in self.params.default_papers}

    @cached_property
    def experiments(self) -> list[PlannedExperiment]:
        """All experiments, with the trials."""
        return [*plan.all_experiments(self.plan), *plan.all_experiments(self.trials)]

    @cached_property
    def warnings(self) -> list[str]:
        """What the user should know about the requested work before it starts."""
        names = sorted(self.request.targets & spec.targets(self.papers).keys())
        chosen, compare = self.reported, self.params.active_scale.compare
        if self.trials:  # one seed of a trial is no reason to warn
            chosen, compare = plan.all_experiments(self.trials), "none"
        empty = [
            f"{name}: nothing to show at scale {self.params.scale}"
            for name in names
            if not self.targets[name]
        ]
        return plan.warnings(chosen, compare) + [*self.left_out, *empty]

    @property
    def reported(self) -> list[PlannedExperiment]:
        """The requested experiments as reports show them."""
        return [self.reports.plan[item.paper][item.name] for item in self.request.experiments]

    @cached_property
    def targets(self) -> dict[str, list[Any]]:
        """The files of each target: all data, all trained runs, those of a paper, a paper's
        artifacts, a single artifact."""
        targets: dict[str, list[Any]] = {}
        for name, (paper, key) in spec.targets(self.papers).items():
            targets[name] = self.reports.artifact_files(paper, key)
        runs = [run for run in plan.unique_runs(self.request.trained) if not run.is_kept]
        targets["data"] = self.prepared(runs) + self.partitions(runs)
        for name in registry.names("datasets"):  # what DVC prepares apart
            targets[f"data_{name}"] = self.prepared(
                run for run in runs if run.config.dataset.name == name
            )
        targets["train"] = _done_files(
            item for paper in self.default_papers for item in self.plan[paper].values()
        )
        targets["tune"] = _done_files(plan.all_experiments(self.trials))
        for paper, group in self.plan.items():
            targets[f"train_{paper}"] = _done_files(group.values())
            targets[f"tune_{paper}"] = _done_files(self.trials.get(paper, {}).values())
            targets[paper] = self.reports.files(paper)
        return targets

    @property
    def costs_of_rules(self) -> dict[str, tuple[Work, ...]]:
        """The work of each rule."""
        return {f"train_{job.name}": job.work for job in self.train_jobs} | {
            job.name: job.work for job in self.study_jobs
        }

    @property
    def snapshots(self) -> dict[Path, frozenset[int]]:
        """The rounds before which trainings store their state, also for studies that are not
        requested now."""
        study_runs = chain.from_iterable(item.study_runs for item in self.experiments)
        return study_plan.snapshots(study_run for study_run in study_runs if not study_run.is_kept)

    @property
    def device_options(self) -> dict[str, Any]:
        """Where a job gets its data from, and the device that it uses."""
        return {"mirror": self.params.mirror, "device": self.params.device_choice}

    @property
    def training_options(self) -> dict[str, Any]:
        return self.device_options | {
            "executor": self.params.executor,
            "checkpoint_seconds": self.params.checkpoint_seconds,
        }

    def restore_summaries(self) -> None:
        """Write the summaries of trained runs again, since Snakemake deletes those of a job that
        failed."""
        restore_summaries(self.experiments)

    def study_inputs(self, study_runs: Iterable[study_plan.StudyRun]) -> list[Path]:
        """Return the files without which studies cannot be made."""
        return sorted(
            {
                path
                for study_run in study_runs
                for path in study_plan.required_files(study_run, self.paths)
            }
        )

    def prepared(self, runs: Iterable[Run]) -> list[Path]:
        """Return the prepared data of some runs."""
        return sorted({self.paths.prepared(run.config.dataset) / datasets.META for run in runs})

    def partitions(self, runs: Iterable[Run]) -> list[Path]:
        return sorted({self.paths.partition(run.config, run.data) for run in runs})

    @property
    def source(self) -> DataSource:
        return DataSource(self.params.mirror)

    def raw(self, folder: str) -> list[Path]:
        """Return the file that exists exactly if the raw files of a prepared data set are complete;
        none if it has no files."""
        dataset = Choice.model_validate(self.dataset(folder))
        return (
            [datasets.raw_folder(dataset, self.paths.raw) / "source.json"]
            if datasets.has_files(dataset)
            else []
        )

    def dataset(self, folder: str) -> dict[str, Any] | str:
        """Return the data set, with its options, that is prepared in a folder of this name."""
        choices = {
            datasets.key(run.config.dataset): run.config.dataset
            for run in plan.unique_runs(self.experiments)
        }
        return choices[folder].model_dump() if folder in choices else folder

    def mlflow_problem(self) -> str | None:
        """Copy the requested experiments' finished runs to MLflow and return what went wrong, if
        anything.

        A command that names other targets than `all` and `mirror` copies only if it has trained.
        """
        everything = not self.request.targets or self.request.targets & {"all", "mirror"}
        if not self.params.mlflow_uri or not (
            everything or self.finished_before < finished(self.plan)
        ):
            return None
        runs = plan.planned_runs(self.reported)
        return mlflow_mirror.mirror(runs, self.params.mlflow_uri, self.params.scale).problem


def plan_workflow(
    config: Mapping[str, Any],
    command: Command,
    capacity: Capacity,
    main: bool = True,
    build: Path = BUILD,
) -> Workflow:
    """Plan the work of the active scale.

    Args:
        config: the settings, overridden by the command line.
        main: whether this process plans; one that does a job reads what was planned.
        build: folder for the packed jobs.

    Raises UserError for settings that are not valid.
    """
    if main:
        provenance.check_commit_variable()
    # Snakemake takes `--config` as a text
    values = {key: None if value == "null" else value for key, value in config.items()}
    params, paths = with_papers(values, Path("params.yaml")), Paths()
    limits = job_limits(params, capacity)
    params = params.limit_cores(limits.cores_per_run)
    papers = spec.read_papers(params)

    # settings -> plan
    def asked(planned: Plan, tried: Plan) -> Request:
        return request.request(command.targets, planned, tried, papers, params)

    if main and command.runs_jobs:
        planned = plan.plan_training(
            params, paths, choose=lambda planned: asked(planned, {}).trained
        )
    else:  # jobs prepare data
        planned = plan.plan_experiments(params, paths)
    tuned = [paper for paper in papers if not main or {"tune", f"tune_{paper}"} & command.targets]
    tried = trials.as_plan(
        one
        for one in trials.plan_trials(params, paths, tuned, main and command.runs_jobs)
        if one.stale or not main
    )

    # plan -> what is requested
    requested = asked(planned, tried)
    if main:
        resolve.check_other_scales(params)
        _check_tuned(plan.all_experiments(tried) or requested.experiments)
    experiments = [*plan.all_experiments(planned), *plan.all_experiments(tried)]
    shown = {
        paper: {
            name: plan.reported(item, params, paths)
            if (paper, name) in requested.reported
            else item
            for name, item in group.items()
        }
        for paper, group in planned.items()
    }
    reports = Reports(params, papers, shown, requested.alone)

    # what is requested -> missing work with costs -> jobs
    folder = build / "packed" / params.scale
    if main:
        restore_summaries(experiments)
        missing = cost.missing_work(plan.planned_work(requested.trained), params, paths)
        reported = [
            item for item in requested.experiments if (item.paper, item.name) in requested.reported
        ]
        left_out = _left_out(reported, params, limits)
        short = sum(work.cost.seconds for work in missing) < jobs.SHORT_WORK_SECONDS * limits.slots
        runs, studies = (
            [work for work in missing if work.is_study is is_study] for is_study in (False, True)
        )
        train_jobs = jobs.pack_jobs(runs, limits.train_slots, together=not requested.files)
        # a study that is not short waits for no other experiment's runs
        study_jobs = jobs.pack_jobs(studies, limits.slots, together=short and not requested.files)
        jobs.write_jobs(train_jobs, folder / "train")
        jobs.write_jobs(study_jobs, folder / "studies")
    else:
        work, left_out = plan.planned_work(experiments), []
        train_jobs, study_jobs = (
            jobs.read_jobs(work, folder / kind) for kind in ("train", "studies")
        )
    drawn = partition_jobs.partition_jobs(experiments, paths)
    return Workflow(
        params,
        paths,
        papers,
        planned,
        tried,
        requested,
        limits,
        reports,
        tuple(left_out),
        finished(planned),
        tuple(train_jobs),
        tuple(study_jobs),
        tuple(drawn),
    )


def _left_out(shown: Iterable[PlannedExperiment], params: Params, limits: JobLimits) -> list[str]:
    """Name the experiments of each paper that are not run, with their cost and the command that
    trains them."""
    groups: dict[str, list[PlannedExperiment]] = {}
    for item in shown:
        if item.finished or not all(path.exists() for path in _done_files([item])):
            groups.setdefault(item.paper, []).append(item)
    sentences = []
    for paper, items in groups.items():
        seconds = cost.wall_seconds(
            cost.missing_work(plan.planned_work(items), params, Paths()), limits.slots
        )
        command = f"snakemake --cores {limits.slots} train_{paper} --config scale={params.scale}"
        names = ", ".join(item.name for item in items)
        sentences.append(
            f"{paper}: not run: {names}. To train them, in about {duration(seconds)}: {command}"
        )
    return sentences


def _check_tuned(chosen: Iterable[PlannedExperiment]) -> None:
    """Raise UserError if a command asks only for experiments whose series are not tuned."""
    chosen = list(chosen)
    reasons = [item.skipped for item in chosen]
    if reasons and all(reason and reason.kind == MissingKind.NOT_TUNED for reason in reasons):
        raise UserError("\n".join(f"{item.paper} {item.name}: {item.skipped}" for item in chosen))


def restore_summaries(experiments: Iterable[PlannedExperiment]) -> None:
    """Write the summaries of trained runs again, since Snakemake deletes those of a job that
    failed."""
    runner.write_summaries(run for run in plan.unique_runs(experiments) if not run.is_kept)


def finished(planned: Plan) -> frozenset[Path]:
    """Return the summaries of finished runs."""
    return frozenset(
        run.summary
        for run in plan.unique_runs(plan.all_experiments(planned))
        if run.summary.exists()
    )


def _done_files(experiments: Iterable[PlannedExperiment]) -> list[Path]:
    """Return the files that exist exactly if the runs and studies of some experiments are finished,
    each once."""
    chosen = list(experiments)
    runs = (run.summary for item in chosen for run in item.runs)
    return list(
        dict.fromkeys(
            (*runs, *(study_run.done_file for item in chosen for study_run in item.study_runs))
        )
    )
