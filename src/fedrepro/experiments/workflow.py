"""The work of the active scale, as Snakemake's rules read it.

The main process plans and packs jobs. A process that does one of them makes the same object without costs, and reads the work
of its job. Nothing here needs Snakemake.
"""

import math
import sys
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from fedrepro.config.params import DataSource, Params, with_papers
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.experiments import cost, jobs, partition_jobs, plan, resolve, study_plan, trials
from fedrepro.experiments.jobs import Job, WorkItem
from fedrepro.experiments.plan import Plan, PlannedExperiment
from fedrepro.experiments.reports import Reports
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_results_name
from fedrepro.report.paper import Paper
from fedrepro.runs import mlflow_mirror
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind
from fedrepro.runs.run import Run
from fedrepro.training import devices, runner

BUILD = Path(".snakemake")  # for packed jobs, which are not committed
# options with which Snakemake runs no job, so that no data are prepared to name runs
READ_ONLY_OPTIONS = {
    *("--summary", "-S", "--detailed-summary", "-D", "--dag", "--rulegraph", "--filegraph", "--d3dag", "--unlock"),
}
SHORT_WORK_SECONDS = 300  # for each core
RESERVED_MINUTES = 60  # beside twice the estimate, which a node's speed may exceed
DATA_PRIORITY = 10**9  # of jobs for which all training waits
Work = TypeVar("Work")


@dataclass(frozen=True)
class Capacity:
    """What Snakemake may use, as the command line gives it."""

    nodes: int | None = None  # jobs that a cluster takes at once; None: jobs run on this machine
    cores: int | None = None
    gpus: int | None = None


def command_words(arguments: Sequence[str]) -> list[str]:
    """Return the words of a Snakemake command that may be targets: neither `all` in `--cores all` nor `key=value`."""
    pairs = zip(["", *arguments], arguments, strict=False)
    words = [word for option, word in pairs if option not in ("--cores", "-c", "--jobs", "-j")]
    return [word for word in words if word.startswith("-") or "=" not in word]


def _once(paths: Iterable[Path]) -> list[Path]:
    """Return each path once: the kept runs of a paper share a file."""
    return list(dict.fromkeys(paths))


class Workflow:
    """The active scale's work.

    Args:
        config: the settings, overridden by the command line.
        resources: what jobs may use.
        main: whether this process plans; one that does a job reads what was planned.
        dry: whether this is a dry run, for which no data are prepared to identify them.
        requested: words of the command line, targets among them; Snakemake gives the targets only after it has read the rules.
        build: folder for the packed jobs.

    Raises UserError for settings that are not valid.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        resources: Capacity | None = None,
        main: bool = True,
        dry: bool = False,
        requested: Collection[str] | None = None,
        build: Path = BUILD,
    ) -> None:
        self.began, self.main = time.time(), main
        self.resources, self.build = resources or Capacity(), build
        self.requested = set(command_words(sys.argv[1:]) if requested is None else requested)
        options = {word for word in self.requested if word.startswith("--rerun-triggers")}
        if main and options and not any(word.endswith("params") for word in self.requested):
            raise UserError("--rerun-triggers: without params nothing follows changed settings. Leave the option out")
        if main:
            provenance.check_commit_variable()
        params, self.paths = with_papers(config, Path("params.yaml")), Paths()
        self.cluster = bool(self.resources.nodes)
        self.gpu_slots = self._gpu_slots(params)  # jobs that may train on this machine's GPUs at once
        self.gpus_per_job = (
            int(params.device == "cuda") if self.cluster else int(devices.planned_device(params.device).type != "cpu")
        )
        self.params = params.limit_cores(self._cores_per_run(params))
        self.papers = spec.read_papers(self.params)
        self.artifacts = spec.targets(self.papers)  # name on the command line -> paper and artifact
        if main and not dry and not READ_ONLY_OPTIONS & {word.partition("=")[0] for word in self.requested}:
            self.plan = plan.plan_training(self.params, self.paths, choose=self.experiments_needing_data)
        else:  # jobs prepare data
            self.plan = plan.plan_experiments(self.params, self.paths)
        self.trials = self._plan_trials(fetch=main and not dry)
        if main:
            resolve.check_other_scales(self.params)
            self._check_tuned()
        self.studies = {
            paper: {name: study_plan.plan_studies(item, self.params, self.paths) for name, item in group.items()}
            for paper, group in self.plan.items()
        }
        self.reports = Reports(self.params, self.papers, self.plan, self.studies, self._requested_alone)
        self.runs = plan.unique_runs(plan.all_experiments({paper: self.plan[paper] for paper in self.default_papers}))
        needed = {} if main and self._shows_nothing else self._training_plan
        self.run_items = plan.work_items(needed)
        self.study_items = study_plan.work_items(chain.from_iterable(map(self.studies_of, needed)))
        if main:
            self.restore_summaries()
        self.finished_before = self._finished()
        costed = plan.all_experiments(needed) if main else []  # only packing needs costs
        self.costs = {work.done_file: work for work in cost.pending_work(costed, self.params, self.paths)}
        shared = self._sharing_jobs()
        self.train_jobs = self._pack("train", self.run_items, lambda run: run.summary, shared, self.params.cores_per_run)
        shared = shared if self._is_short() else set()
        self.study_jobs = self._pack("studies", self.study_items, lambda study_run: study_run.done_file, shared)
        self.snapshots = study_plan.snapshots(item.work for item in self.study_items)
        self.partition_jobs = partition_jobs.partition_jobs(self._training_plan, self.paths)

    # what a job may use

    def _gpu_slots(self, params: Params) -> int | None:
        if self.cluster or devices.planned_device(params.device).type == "cpu":
            return None
        return self.resources.gpus or len(devices.gpu_indices(params.gpus)) * params.gpus.jobs or None

    def _cores_per_run(self, params: Params) -> int:
        """Return the cores of a run: as set on a cluster, all of this machine, or one if it trains on a GPU."""
        if self.gpus_per_job:
            return 1
        return params.cores_per_run if self.cluster else self.resources.cores or 1

    def slots(self, each: int = 1) -> int:
        """Return how many jobs may run at once, with `each` so many cores."""
        jobs = self.resources.nodes or max(1, (self.resources.cores or 2) // each)
        return min(jobs, self.gpu_slots or self.resources.gpus or jobs) if self.gpus_per_job else jobs

    # the requested work

    @property
    def default_papers(self) -> dict[str, Paper]:
        """The papers that pages show."""
        return {paper: self.papers[paper] for paper in self.params.default_papers}

    def _plan_trials(self, fetch: bool) -> Plan:
        """Return the trials of values, if the command line asks for them by `tune` or `tune_<paper>`, of series whose chosen
        values are not current; in a process that does a job, all of them."""
        papers = [paper for paper in self.papers if {"tune", f"tune_{paper}"} & self.requested]
        if self.main and not papers:
            return {}
        tuned = trials.plan_trials(self.params, self.paths, papers if self.main else None, fetch)
        return trials.as_plan([one for one in tuned if one.stale or not self.main])

    def _check_tuned(self) -> None:
        """Raise UserError if the command line asks only for experiments whose series are not tuned."""
        reasons = [item.skipped for item in self.requested_experiments]
        if reasons and all(reason and reason.kind == MissingKind.NOT_TUNED for reason in reasons):
            raise UserError("\n".join(f"{item.paper} {item.name}: {item.skipped}" for item in self.requested_experiments))

    @property
    def _training_plan(self) -> Plan:
        """The plan with the trials."""
        return {paper: {**group, **self.trials.get(paper, {})} for paper, group in self.plan.items()}

    @cached_property
    def requested_experiments(self) -> list[PlannedExperiment]:
        return plan.all_experiments(self.trials) if self.main and self.trials else self._requested(self.plan)

    def _requested(self, planned: Plan) -> list[PlannedExperiment]:
        """Return the experiments of the artifacts and papers that the command line names; all if it names none."""
        experiments: list[PlannedExperiment] = []
        for name in self.requested & self.artifacts.keys():
            paper, artifact = self.artifacts[name]
            sources = self.papers[paper].sources([artifact])
            experiments += [planned[paper][split_results_name(source)[0]] for source in sources]
        papers = [paper for paper in planned if {paper, f"train_{paper}", f"tune_{paper}"} & self.requested]
        if not experiments and not papers:
            papers = list(self.params.default_papers)
        for paper in papers:
            experiments += planned[paper].values()
        return list({(item.paper, item.name): item for item in experiments}.values())

    @property
    def _requested_alone(self) -> dict[str, set[str]]:
        """By paper, the artifacts that the command line names, if it names nothing else of the paper: no others are made."""
        if self.requested & set(spec.RULES) or self._requested_files:
            return {}
        by_paper: dict[str, set[str]] = {}
        for name in self.requested & self.artifacts.keys():
            paper, artifact = self.artifacts[name]
            by_paper.setdefault(paper, set()).add(artifact)
        return {paper: artifacts for paper, artifacts in by_paper.items() if paper not in self.requested}

    @property
    def _shows_nothing(self) -> bool:
        """Whether the command line names artifacts alone, none of which shows anything at the scale."""
        shown = chain.from_iterable(self.reports.files(paper) for paper in self._requested_alone)
        return bool(self._requested_alone) and not self.requested & self.plan.keys() and not any(shown)

    @property
    def _requested_files(self) -> set[str]:
        return {word for word in self.requested if word.startswith(("data/", "reports/", "results/"))}

    def experiments_needing_data(self, planned: Plan) -> list[PlannedExperiment]:
        """Return the experiments whose data a command prepares: all if it names a rule or a file, which may need any."""
        every = self._requested_files or self.requested & set(spec.RULES)
        return plan.all_experiments(planned) if every else self._requested(planned)

    @cached_property
    def warnings(self) -> list[str]:
        """What the user should know about the requested work before it starts."""
        empty = [name for name in sorted(self.requested & self.artifacts.keys()) if not self.targets[name]]
        compare = "none" if self.trials else self.params.active_scale.compare  # one seed of a trial is no reason to warn
        messages = plan.warnings(self.requested_experiments, compare)
        return messages + [f"{name}: nothing to show at scale {self.params.scale}" for name in empty]

    def _sharing_jobs(self) -> set[str]:
        """Return the experiments, and their studies, that may share jobs.

        Empty if an artifact is requested by name; else the requested experiments. If the work is long, those with pending
        studies keep jobs of their own.
        """
        if self.requested & self.artifacts.keys():
            return set()
        items: list[WorkItem[Any]] = [*self.run_items, *self.study_items]
        requested = {item.experiment for item in items if item.done_file.parent in self._requested_folders}
        if self._is_short():
            return requested
        studied = {item.work.run.folder for item in self.study_items if not item.done_file.exists()}
        return requested - {item.experiment for item in self.run_items if item.work.folder in studied}

    def _is_short(self) -> bool:
        """Return whether all requested work is short, so that studies may wait for the rest of it."""
        seconds = [work.cost.seconds for path, work in self.costs.items() if path.parent in self._requested_folders]
        return sum(seconds) < SHORT_WORK_SECONDS * self.slots()

    @cached_property
    def _requested_folders(self) -> set[Path]:
        return {run.folder for item in self.requested_experiments for run in item.runs}

    def _pack(
        self,
        kind: str,
        items: list[WorkItem[Work]],
        done_file: Callable[[Work], Path],
        mixed: Container[str] = (),
        each: int = 1,
    ) -> list[Job[Work]]:
        """Pack unfinished items into jobs; in a process that does a job, read the main process's jobs."""
        folder = self.build / "packed" / self.params.scale / kind
        if not self.main:
            return jobs.read_jobs(items, folder)

        def seconds(work: Work) -> float:
            return self.costs[done_file(work)].cost.seconds

        def is_requested(work: Work) -> bool:
            return done_file(work).parent in self._requested_folders

        return jobs.write_jobs(items, seconds, self.slots(each), folder, mixed, is_requested)

    @cached_property
    def costs_of_rules(self) -> dict[str, list[cost.PendingWork]]:
        """The costs of each job's work by rule; empty in a process that does a job."""
        if not self.main:
            return {}
        by_rule = {f"train_{job.name}": job.done_files for job in self.train_jobs}
        by_rule |= {job.name: job.done_files for job in self.study_jobs}
        return {rule: [self.costs[path] for path in done_files] for rule, done_files in by_rule.items()}

    def priority(self, rule: str) -> int:
        """Return the seconds of a rule's job: the longest starts first, so that at the end no core waits for it."""
        return int(sum(work.cost.seconds for work in self.costs_of_rules.get(rule, ())))

    def minutes(self, rule: str, attempt: int) -> int:
        """Return the time that a cluster reserves for a rule's job: twice the estimate and an hour, more at each attempt."""
        return attempt * (RESERVED_MINUTES + math.ceil(2 * self.priority(rule) / 60))

    def megabytes(self, rule: str, attempt: int) -> int:
        """Return the memory that a cluster reserves for a rule's job: that of its largest work, more at each attempt."""
        return attempt * math.ceil(max((work.cost.memory for work in self.costs_of_rules.get(rule, ())), default=0) / 1e6)

    def studies_of(self, paper: str) -> list[study_plan.PlannedStudy]:
        return [study for group in self.studies[paper].values() for study in group.values()]

    @cached_property
    def targets(self) -> dict[str, Sequence[Path | str]]:
        """The files of each target: all data, all trained runs, those of a paper, a paper's artifacts, a single artifact."""
        targets: dict[str, Sequence[Path | str]] = {}
        for name, (paper, key) in self.artifacts.items():
            targets[name] = self.reports.artifact_files(paper, key)
        targets["data"] = self.prepared(self.runs_to_train) + self.partitions(self.runs_to_train)
        studies = chain.from_iterable(map(self.studies_of, self.default_papers))
        targets["train"] = _once([*(run.summary for run in self.runs), *study_plan.done_files(studies)])
        for paper, group in self.plan.items():
            summaries = [run.summary for run in plan.unique_runs(group.values())]
            targets[f"train_{paper}"] = _once([*summaries, *study_plan.done_files(self.studies_of(paper))])
            targets[paper] = self.reports.files(paper)
            targets[f"tune_{paper}"] = _once(run.summary for run in plan.unique_runs(self.trials.get(paper, {}).values()))
        targets["tune"] = _once(run.summary for run in plan.unique_runs(plan.all_experiments(self.trials)))
        return targets

    @property
    def device_options(self) -> dict[str, Any]:
        """Where a job gets its data from, and the device that it uses."""
        return {"mirror": self.params.mirror, "device": self.params.device_choice}

    @property
    def training_options(self) -> dict[str, Any]:
        return self.device_options | {"executor": self.params.executor, "checkpoint_seconds": self.params.checkpoint_seconds}

    def restore_summaries(self) -> None:
        """Write the summaries of trained runs again, since Snakemake deletes those of a job that failed."""
        runner.write_summaries(item.work for item in self.run_items)

    def study_inputs(self, study_runs: Iterable[study_plan.StudyRun]) -> list[Path]:
        """Return the files without which studies cannot be made."""
        return sorted({path for study_run in study_runs for path in study_plan.required_files(study_run, self.paths)})

    # data

    def prepared(self, runs: Iterable[Run]) -> list[Path]:
        """Return the prepared data of some runs."""
        return sorted({self.paths.prepared(run.config.dataset) / datasets.META for run in runs})

    def partitions(self, runs: Iterable[Run]) -> list[Path]:
        return sorted({self.paths.partition(run.config, run.data) for run in runs})

    @property
    def runs_to_train(self) -> list[Run]:
        """The runs that are not kept; none with `report_only`."""
        return [] if self.params.report_only else [item.work for item in self.run_items]

    @property
    def source(self) -> DataSource:
        return DataSource(self.params.mirror)

    def raw(self, folder: str) -> list[Path]:
        """Return the file that exists exactly if the raw files of a prepared data set are complete; none if it has no files."""
        dataset = Choice.model_validate(self.dataset(folder))
        return [datasets.raw_folder(dataset, self.paths.raw) / "source.json"] if datasets.has_files(dataset) else []

    @property
    def heatmap_code(self) -> str:
        return provenance.heatmap_digest()

    def dataset(self, folder: str) -> dict[str, Any] | str:
        """Return the data set, with its options, that is prepared in a folder of this name."""
        runs = [*self.runs, *(item.work for item in self.run_items)]
        choices = {datasets.key(run.config.dataset): run.config.dataset for run in runs}
        return choices[folder].model_dump() if folder in choices else folder

    # MLflow

    def _finished(self) -> set[Path]:
        """Return the summaries of all papers' finished runs."""
        return {run.summary for run in plan.unique_runs(plan.all_experiments(self.plan)) if run.summary.exists()}

    def mlflow_problem(self) -> str | None:
        """Copy the requested experiments' finished runs to MLflow and return what went wrong, if anything.

        A command that names other targets than `all` and `mirror` copies only if it has trained.
        """
        named = self._requested_files | self.requested & {*self.targets, *spec.RULES}
        everything = not named or named & {"all", "mirror"}
        if not self.params.mlflow_uri or not (everything or self.finished_before < self._finished()):
            return None
        runs = plan.planned_runs(self._requested(self.plan))
        return mlflow_mirror.mirror(runs, self.params.mlflow_uri, self.params.scale).problem
