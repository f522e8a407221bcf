"""What the rules of Snakemake read: the work of the active scale, resolved once from the settings.

The main process plans and packs jobs; a process that does one of them makes the same object without costs, and reads which work
is in its job. Nothing here needs Snakemake.
"""

import sys
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from fedrepro.config.params import DataSource, Params, with_papers
from fedrepro.core import provenance
from fedrepro.core.files import read_required_json
from fedrepro.data import datasets
from fedrepro.experiments import cost, jobs, partition_jobs, plan, resolve, study_plan
from fedrepro.experiments.jobs import Job, WorkItem
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.experiments.reports import Reports
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_results_name
from fedrepro.runs import mlflow_mirror
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import devices, runner

BUILD = Path(".snakemake")  # what a clone does not have: packed jobs
# options of Snakemake's with which no job runs: no data are prepared then to name runs
SHOWS = {"--summary", "-S", "--detailed-summary", "-D", "--dag", "--rulegraph", "--filegraph", "--d3dag", "--unlock"}
SHORT = 300  # seconds of work for each core
FIRST = 10**9  # priority of what all training waits for
Work = TypeVar("Work")


@dataclass(frozen=True)
class Capacity:
    """What Snakemake may use: `nodes`, the jobs that a cluster takes at once (None: this machine works), `cores` and `gpus` as
    the command line gives them."""

    nodes: int | None = None
    cores: int | None = None
    gpus: int | None = None


def command_words(arguments: Sequence[str]) -> list[str]:
    """The words of a command of Snakemake's that may be targets; of `--cores all` the second is a number."""
    before = ["", *arguments]
    return [word for option, word in zip(before, arguments, strict=False) if option not in ("--cores", "-c", "--jobs", "-j")]


def _once(paths: Iterable[Path]) -> list[Path]:
    """Each path once: the kept runs of a paper share a file."""
    return list(dict.fromkeys(paths))


class Workflow:
    """The active scale's work.

    Args:
        config: the settings, with the command line's laid over them.
        resources: what jobs may use.
        main: whether this process plans; one that does a job reads what was planned.
        dry: whether nothing is done: then no data are prepared to learn which they are.
        requested: words of the command line, targets among them. Snakemake tells the targets only after it has read the rules.

    Raises UserError for settings that cannot be met.
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
        params, self.paths = with_papers(config, Path("params.yaml")), Paths()
        self.cluster = bool(self.resources.nodes)
        self.gpu_slots = self._gpu_slots(params)  # how many jobs may train on this machine's GPUs at once
        self.gpus_per_job = (
            int(params.device == "cuda") if self.cluster else int(devices.planned_device(params.device).type != "cpu")
        )
        self.params = params.limit_cores(self._cores_per_run(params))
        self.papers = spec.read_papers(self.params)
        self.artifacts = spec.targets(self.papers)  # name on the command line -> paper and artifact
        if main and not dry and not SHOWS & {word.partition("=")[0] for word in self.requested}:
            self.plan = plan.plan_training(self.params, self.paths, choose=self._needing_data)
        else:  # a job of its own finds the data
            self.plan = plan.plan_experiments(self.params, self.paths)
        if main:
            resolve.check(self.params)
        self.studies = {
            paper: {name: study_plan.plan_studies(item, self.params, self.paths) for name, item in group.items()}
            for paper, group in self.plan.items()
        }
        self.reports = Reports(self.params, self.papers, self.plan, self.studies, self._requested_alone)
        self.runs = plan.unique_runs(self._all_planned())
        self.run_pieces = plan.work_items(self.plan)
        self.study_pieces = study_plan.work_items(chain.from_iterable(map(self.studies_of, self.plan)))
        if main:
            self.restore_summaries()
        self.finished_before = {run.summary for run in self.runs if run.summary.exists()}
        unfinished = self._all_planned() if main else []  # a process that does one job knows what it does
        self.costs = {entry.done_file: entry for entry in cost.pending_work(unfinished, self.params, self.paths)}
        shared = self._sharing_jobs()
        self.train_jobs = self._pack("train", self.run_pieces, lambda run: run.summary, shared, self.params.cores_per_run)
        self.study_jobs = self._pack(
            "studies", self.study_pieces, lambda case: case.done_file, shared if self._is_short() else ()
        )
        self.snapshots = study_plan.snapshots(piece.work for piece in self.study_pieces)
        self.partition_jobs = partition_jobs.partition_jobs(self.plan, self.paths)

    # what a job may use

    def _gpu_slots(self, params: Params) -> int | None:
        if self.cluster or devices.planned_device(params.device).type == "cpu":
            return None
        return self.resources.gpus or len(devices.gpu_indices(params.gpus)) * params.gpus.jobs or None

    def _cores_per_run(self, params: Params) -> int:
        """Any number on a cluster, one beside a GPU."""
        if self.gpus_per_job:
            return 1
        return params.cores_per_run if self.cluster else self.resources.cores or 1

    def slots(self, each: int = 1) -> int:
        """How many jobs of `each` so many cores may be at work at once."""
        many = self.resources.nodes or max(1, (self.resources.cores or 2) // each)
        return min(many, self.gpu_slots or self.resources.gpus or many) if self.gpus_per_job else many

    # which work there is

    def _all_planned(self) -> list[PlannedExperiment]:
        return plan.all_experiments(self.plan)

    @cached_property
    def requested_experiments(self) -> list[PlannedExperiment]:
        return self._requested(self.plan)

    def _requested(self, planned: Mapping[str, Mapping[str, PlannedExperiment]]) -> list[PlannedExperiment]:
        """The experiments of the artifacts and papers that the command line names; all where it names none."""
        found = [
            planned[paper][split_results_name(source)[0]]
            for paper, artifact in (self.artifacts[name] for name in self.requested & self.artifacts.keys())
            for source in self.papers[paper].sources([artifact])
        ]
        papers = [paper for paper in planned if {paper, f"train_{paper}"} & self.requested]
        if not found and not papers:
            papers = list(planned)
        found += [item for paper in papers for item in planned[paper].values()]
        return list({(item.paper, item.name): item for item in found}.values())

    @property
    def _requested_alone(self) -> dict[str, set[str]]:
        """Paper -> the artifacts that the command line names, where it names nothing else: then no other is made."""
        others = self.requested & {*self.papers, *spec.RULES} or any("/" in word for word in self.requested)
        found: dict[str, set[str]] = {}
        for name in set() if others else self.requested & self.artifacts.keys():
            paper, artifact = self.artifacts[name]
            found.setdefault(paper, set()).add(artifact)
        return found

    def _needing_data(self, planned: Mapping[str, Mapping[str, PlannedExperiment]]) -> list[PlannedExperiment]:
        """The experiments whose data a command brings: all where it names a rule or a file, which may need any."""
        files = any(word.startswith(("data/", "reports/", "results/")) for word in self.requested)
        return plan.all_experiments(planned) if files or self.requested & set(spec.RULES) else self._requested(planned)

    @cached_property
    def warnings(self) -> list[str]:
        """What is to be said of what is requested, before anything is trained."""
        empty = [name for name in sorted(self.requested & self.artifacts.keys()) if not self.targets[name]]
        told = [f"{name}: nothing to show at scale {self.params.scale}" for name in empty]
        return plan.warnings(self.requested_experiments, self.params.active_scale.compare) + told

    def _sharing_jobs(self) -> set[str]:
        """The experiments, and their studies, that may share jobs with others: none where a single artifact is requested, else
        those of the requested papers; where the work is long, not those that a study waits for."""
        if self.requested & self.artifacts.keys():
            return set()
        pieces: list[WorkItem] = [*self.run_pieces, *self.study_pieces]
        requested = {piece.experiment for piece in pieces if piece.done_file.parent in self._requested_folders}
        if self._is_short():
            return requested
        waited = {piece.work.run.folder for piece in self.study_pieces if not piece.done_file.exists()}
        return requested - {piece.experiment for piece in self.run_pieces if piece.work.folder in waited}

    def _is_short(self) -> bool:
        """Whether a study may wait for all other work that is requested."""
        spent = [entry.cost.seconds for over, entry in self.costs.items() if over.parent in self._requested_folders]
        return sum(spent) < SHORT * self.slots()

    @cached_property
    def _requested_folders(self) -> set[Path]:
        return {run.folder for item in self.requested_experiments for run in item.runs}

    def _pack(
        self,
        kind: str,
        pieces: list[WorkItem[Work]],
        over: Callable[[Work], Path],
        mixed: Container[str] = (),
        each: int = 1,
    ) -> list[Job[Work]]:
        """The jobs of what is not finished; a process that does one of them has the main process's."""
        folder = self.build / "packed" / self.params.scale / kind
        if not self.main:
            return jobs.read_jobs(pieces, folder)

        def seconds(work: Work) -> float:
            return self.costs[over(work)].cost.seconds

        return jobs.write_jobs(
            pieces, seconds, self.slots(each), folder, mixed, lambda work: over(work).parent in self._requested_folders
        )

    @cached_property
    def costs_of_rules(self) -> dict[str, list[cost.PendingWork]]:
        """Rule -> the costs of what its job does; empty in a process that does one of the jobs."""
        named = {f"train_{job.name}": job for job in self.train_jobs} | {job.name: job for job in self.study_jobs}
        return {rule: [self.costs[over] for over in job.done_files] for rule, job in named.items()} if self.main else {}

    def priority(self, rule: str) -> int:
        """In seconds: the longest job goes first, so that at the end no core waits for it."""
        return int(sum(entry.cost.seconds for entry in self.costs_of_rules.get(rule, ())))

    def studies_of(self, paper: str) -> list[study_plan.PlannedStudy]:
        return [study for group in self.studies[paper].values() for study in group.values()]

    @cached_property
    def targets(self) -> dict[str, list[Path | str]]:
        """Target -> its files: all data, all trained runs, those of a paper, a paper's artifacts, a single artifact."""
        found = {
            "data": self.prepared(self.runs_to_train) + self.partitions(self.runs_to_train),
            "train": _once([*(run.summary for run in self.runs), *(piece.done_file for piece in self.study_pieces)]),
        }
        for paper, group in self.plan.items():
            runs = plan.unique_runs(list(group.values()))
            found[f"train_{paper}"] = _once([*(run.summary for run in runs), *study_plan.done_files(self.studies_of(paper))])
            found[paper] = self.reports.files(paper)
        return {name: self.reports.made(paper, key) for name, (paper, key) in self.artifacts.items()} | found

    @property
    def device_options(self) -> dict[str, Any]:
        """Where the data of a job come from, and what it computes on."""
        return {"mirror": self.params.mirror, "device": self.params.device, "gpus": self.params.gpus}

    @property
    def training_options(self) -> dict[str, Any]:
        more = {"executor": self.params.executor, "checkpoint_seconds": self.params.checkpoint_seconds}
        return self.device_options | more

    def restore_summaries(self) -> None:
        """Write the summaries of trained runs again: of a job that failed Snakemake deletes all."""
        runner.write_summaries(piece.work for piece in self.run_pieces)

    def study_inputs(self, cases: Iterable[study_plan.StudyRun]) -> list[Path]:
        """The files without which studies cannot be made."""
        return sorted({path for case in cases for path in study_plan.required_files(case, self.paths)})

    # data

    def prepared(self, runs: Iterable[Run]) -> list[Path]:
        """The prepared data of some runs."""
        return sorted({self.paths.prepared(run.config.dataset) / datasets.META for run in runs})

    def partitions(self, runs: Iterable[Run]) -> list[Path]:
        return sorted({self.paths.partition(run.config, run.data) for run in runs})

    @property
    def runs_to_train(self) -> list[Run]:
        """Whose data are asked for: none where only what is finished is reported."""
        return [] if self.params.report_only else [piece.work for piece in self.run_pieces]

    @property
    def source(self) -> DataSource:
        return DataSource(self.params.mirror)

    def raw(self, folder: str) -> list[Path]:
        """The file that says that the raw files of a prepared data set are complete, where it has any."""
        dataset = self.dataset(folder)
        return [self.paths.raw / datasets.origin(dataset) / "source.json"] if datasets.has_files(dataset) else []

    @property
    def heatmap_code(self) -> str:
        return provenance.heatmap_digest()

    def dataset(self, folder: str) -> dict[str, Any] | str:
        """The data set, with its options, in a folder below data/prepared."""
        known = {datasets.key(run.config.dataset): run.config.dataset for run in self.runs}
        return known[folder].model_dump() if folder in known else folder

    # MLflow

    @property
    def planned_runs(self) -> list[tuple[str, str, str, Run]]:
        """Paper, experiment, series and run of all that is planned."""
        return plan.planned_runs(self.plan)

    @property
    def mirrored(self) -> Path:
        return self.paths.results / f"mlflow-{self.params.scale}.json"

    def mlflow_problem(self, made: Container[str]) -> str | None:
        """Why MLflow is not up to date, whatever was requested and whatever failed; None where it is. `made`: by jobs."""
        if str(self.mirrored) in made:
            return read_required_json(self.mirrored, "problem")["problem"]
        if self.finished_before < {run.summary for run in self.runs if run.summary.exists()}:
            return mlflow_mirror.mirror(self.planned_runs, self.params.mlflow_uri, self.params.scale).problem
        return None
