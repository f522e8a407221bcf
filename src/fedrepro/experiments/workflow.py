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

from fedrepro.config.params import Params, Source
from fedrepro.config.types import parse
from fedrepro.core import provenance
from fedrepro.core.files import read_whole_json
from fedrepro.data import datasets
from fedrepro.experiments import cost, jobs, partition_jobs, plan, resolve, study_plan
from fedrepro.experiments.jobs import Job, Piece
from fedrepro.experiments.plan import Planned
from fedrepro.report import artifacts, incremental
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_source
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs import mlflow_mirror
from fedrepro.runs.gather import Gathering
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run
from fedrepro.training import devices, runner

BUILD = Path(".snakemake")  # what a clone does not have: packed jobs and stamps
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


class Workflow:
    """The active scale's work.

    Args:
        config: the settings, with the command line's laid over them.
        resources: what jobs may use.
        main: whether this process plans; one that does a job reads what was planned.
        dry: whether nothing is done: then no data are fetched to learn which they are.
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
        params, self.paths = parse(Params, config, "params.yaml"), Paths()
        self.cluster = bool(self.resources.nodes)
        self.gpu_slots = self._gpu_slots(params)  # how many jobs may train on this machine's GPUs at once
        self.gpus_per_job = int(params.device == "cuda") if self.cluster else int(devices.meant(params.device).type != "cpu")
        self.params = params.on(self._cores_per_run(params))
        self.papers = spec.read_all(self.params)
        self.artifacts = spec.targets(self.papers)  # name on the command line -> paper and artifact
        if main and not dry:
            self.plan = plan.plan_training(self.params, self.paths, choose=self._needing_data)
        else:  # a job of its own finds the data
            self.plan = plan.plan(self.params, self.paths)
        if main:
            resolve.check(self.params)
        self.studies = {
            paper: {name: study_plan.plan(item, self.params, self.paths) for name, item in group.items()}
            for paper, group in self.plan.items()
        }
        self.runs = plan.unique(self._all_planned())
        self.run_pieces = plan.pieces(self.plan)
        self.study_pieces = study_plan.pieces(chain.from_iterable(map(self.studies_of, self.plan)))
        if main:
            self.restore_summaries()
        self.finished_before = {run.summary for run in self.runs if run.summary.exists()}
        unfinished = self._all_planned() if main else []  # a process that does one job knows what it does
        self.costs = {entry.over: entry for entry in cost.entries(unfinished, self.params, self.paths)}
        self.train_jobs = self._pack(
            "train", self.run_pieces, lambda run: run.summary, self._mixed(), self.params.cores_per_run
        )
        self.study_jobs = self._pack("studies", self.study_pieces, lambda case: case.note)
        self.snapshots = study_plan.snapshots(piece.work for piece in self.study_pieces)
        self.partition_jobs = partition_jobs.drawings(self.plan, self.paths)

    # what a job may use

    def _gpu_slots(self, params: Params) -> int | None:
        if self.cluster or devices.meant(params.device).type == "cpu":
            return None
        return self.resources.gpus or len(devices.numbers(params.gpus)) * params.gpus.jobs or None

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

    def _all_planned(self) -> list[Planned]:
        return plan.select(self.plan, None, None)

    @cached_property
    def requested_experiments(self) -> list[Planned]:
        return self._requested(self.plan)

    def _requested(self, planned: Mapping[str, Mapping[str, Planned]]) -> list[Planned]:
        """The experiments of the artifacts and papers that the command line names; all where it names none."""
        found = [
            planned[paper][split_source(source)[0]]
            for paper, artifact in (self.artifacts[name] for name in self.requested & self.artifacts.keys())
            for source in self.papers[paper].sources([artifact])
        ]
        papers = [paper for paper in planned if {paper, f"train_{paper}"} & self.requested]
        if not found and not papers:
            papers = list(planned)
        found += [item for paper in papers for item in planned[paper].values()]
        return list({(item.paper, item.name): item for item in found}.values())

    def _needing_data(self, planned: Mapping[str, Mapping[str, Planned]]) -> list[Planned]:
        """The experiments whose data a command brings: all where it names a rule or a file, which may need any."""
        files = any(word.startswith(("data/", "reports/", "results/")) for word in self.requested)
        return plan.select(planned, None, None) if files or self.requested & set(spec.RULES) else self._requested(planned)

    @cached_property
    def remarks(self) -> list[str]:
        """What is to be said before anything is trained: about what is requested, and about numbers that stay as they are."""
        stays = [
            f"{paper} {source}: {given.staying}"
            for paper in self.papers
            for source, given in self.gathering(paper).items()
            if given.stays(self.reports / paper / "data")
        ]
        return plan.remarks(self.requested_experiments, self.params.active.compare) + stays

    def _mixed(self) -> set[str]:
        """The experiments whose runs may share jobs with others': none where a single artifact is requested, else those of the
        requested papers that no study waits for."""
        if self.requested & self.artifacts.keys():
            return set()
        waited = {piece.work.run.folder for piece in self.study_pieces if not piece.over.exists()}
        apart = {piece.experiment for piece in self.run_pieces if piece.work.folder in waited}
        return {piece.experiment for piece in self.run_pieces if piece.work.folder in self._requested_folders} - apart

    @cached_property
    def _requested_folders(self) -> set[Path]:
        return {run.folder for item in self.requested_experiments for run in item.runs}

    def _pack(
        self,
        kind: str,
        pieces: list[Piece[Work]],
        over: Callable[[Work], Path],
        mixed: Container[str] = (),
        each: int = 1,
    ) -> list[Job[Work]]:
        """The jobs of what is not finished; a process that does one of them has the main process's."""
        folder = self.build / "packed" / self.params.scale / kind
        if not self.main:
            return jobs.decided(pieces, folder)

        def seconds(work: Work) -> float:
            return self.costs[over(work)].cost.seconds

        return jobs.decide(
            pieces, seconds, self.slots(each), folder, mixed, lambda work: over(work).parent in self._requested_folders
        )

    @cached_property
    def costs_of_rules(self) -> dict[str, list[cost.Entry]]:
        """Rule -> the costs of what its job does; empty in a process that does one of the jobs."""
        named = {f"train_{job.name}": job for job in self.train_jobs} | {job.name: job for job in self.study_jobs}
        return {rule: [self.costs[over] for over in job.over] for rule, job in named.items()} if self.main else {}

    def priority(self, rule: str) -> int:
        """In seconds: the longest job goes first, so that at the end no core waits for it."""
        return int(sum(entry.cost.seconds for entry in self.costs_of_rules.get(rule, ())))

    def studies_of(self, paper: str) -> list[study_plan.Studied]:
        return [study for group in self.studies[paper].values() for study in group.values()]

    @cached_property
    def targets(self) -> dict[str, list[Path]]:
        """Target -> its files: all data, all trained runs, those of a paper, a paper's artifacts, a single artifact."""
        found = {
            "data": self.prepared(self.runs_to_train) + self.partitions(self.runs_to_train),
            "train": [run.summary for run in self.runs] + [piece.over for piece in self.study_pieces],
        }
        for paper, group in self.plan.items():
            runs = plan.unique(list(group.values()))
            found[f"train_{paper}"] = [*(run.summary for run in runs), *study_plan.notes(self.studies_of(paper))]
            found[paper] = [self.stamp(paper)]
        return {name: [self.stamp(paper, key)] for name, (paper, key) in self.artifacts.items()} | found

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
        runner.summarise(piece.work for piece in self.run_pieces)

    def study_inputs(self, cases: Iterable[study_plan.Case]) -> list[Path]:
        """The files without which studies cannot be made."""
        return sorted({path for case in cases for path in study_plan.needs(case, self.paths)})

    # data

    def prepared(self, runs: Iterable[Run]) -> list[Path]:
        """The prepared data of some runs."""
        return sorted({self.paths.prepared(run.config.dataset) / datasets.META for run in runs})

    def partitions(self, runs: Iterable[Run]) -> list[Path]:
        return sorted({self.paths.partition(run.config, run.data) for run in runs})

    @property
    def runs_to_train(self) -> list[Run]:
        """Whose data are asked for: none where only what is finished is reported."""
        return [] if self.params.only_finished else [piece.work for piece in self.run_pieces]

    @property
    def source(self) -> Source:
        return Source(self.params.mirror)

    def raw(self, folder: str) -> Path:
        """The file that says that the raw files of a prepared data set are complete."""
        return self.paths.raw / datasets.origin(self.dataset(folder)) / "source.json"

    @property
    def heatmap_code(self) -> str:
        return provenance.heatmap_digest()

    def dataset(self, folder: str) -> dict[str, Any] | str:
        """The data set, with its options, in a folder below data/prepared."""
        known = {datasets.key(run.config.dataset): run.config.dataset for run in self.runs}
        return known[folder].model_dump() if folder in known else folder

    @cached_property
    def heatmaps(self) -> list[Path]:
        """Of the partitions. Where only what is finished is reported nothing is fetched: those that a report lacks and whose
        data are there."""
        if not self.params.only_finished:
            return [path.with_suffix(".png") for job in self.partition_jobs for path in job.configs]
        groups = self.plan.items()
        return [path for paper, group in groups for path in partition_jobs.wanted(group, self.paths, self.reports / paper)]

    # reports

    @property
    def reports(self) -> Path:
        return Path("reports", self.params.scale)

    @property
    def stamps(self) -> Path:
        """Which artifacts are up to date, by content."""
        return self.build / f"made-{self.params.scale}"

    @cached_property
    def report_code(self) -> str:
        return provenance.report_digest()

    def gathering(self, paper: str, keys: Collection[str] | None = None) -> dict[str, Gathering]:
        """What reports get of each source of some artifacts of a paper (None: of all)."""
        found = {}
        for source in self.papers[paper].sources(keys):
            experiment, study = split_source(source)
            found[source] = (
                study_plan.gathering(self.studies[paper][experiment][study], self.params)
                if study
                else plan.gathering(self.plan[paper][experiment], self.params)
            )
        return found

    def finished(self, paper: str, keys: Collection[str] | None = None) -> list[Path]:
        """The files that say that all runs and studies behind some artifacts are over."""
        return list(dict.fromkeys(path for source in self.gathering(paper, keys).values() for path in source.over))

    @cached_property
    def known(self) -> dict[str, dict[str, str]]:
        """Paper -> artifact -> digest of all that it follows from, as far as it is known before anything is run."""

        def digest(paper: str, keys: Collection[str] | None = None) -> str:
            about = spec.identity(self.papers[paper], keys)
            return provenance.digest([about, self.report_code, str(self.gathering(paper, keys))])

        return {
            paper: {key: digest(paper, [key]) for key in own.artifacts} | {incremental.ALL: digest(paper)}
            for paper, own in self.papers.items()
        }

    def stamp(self, paper: str, key: str = incremental.ALL) -> Path:
        """The file that says that an artifact is up to date, or that all are."""
        return incremental.stamp(self.stamps / paper, key, self.known[paper][key])

    def files(self, paper: str) -> list[str]:
        """All of a paper's artifacts, and the numbers that they were made from."""
        own = self.papers[paper]
        named = [name for key in own.artifacts for name in artifacts.files(own, key)]
        return [str(self.reports / paper / name) for name in (*named, *artifacts.data(own))]

    def captions(self, paper: str) -> Path:
        """The folder of the captions that `snakemake --report` shows."""
        return self.stamps / paper / "captions"

    def shown(self, paper: str, file: str) -> dict[str, Any] | None:
        """What `snakemake --report` says of an artifact's file; None of one that it does not show."""
        key, room = Path(file).stem, Path(file).parent.name
        ending, group = {"figures": (".png", "Figures"), "tables": (".csv", "Tables")}.get(room, (None, None))
        if Path(file).suffix != ending:
            return None
        own, verdicts = self.papers[paper], key == VERDICTS
        return {
            "caption": str((self.captions(paper) / f"{key}.rst").resolve()),
            "category": own.title,
            "subcategory": "Verdicts" if verdicts else group,
            "labels": {"name": key, "title": "All claims" if verdicts else own[key].title},
        }

    @property
    def notebooks(self) -> list[Path]:
        """Of each paper that of the first figure that was run: `fedrepro notebook` writes any other."""
        found = []
        for paper, own in self.papers.items():
            run = (key for key, figure in own.figures.items() if self._was_run(paper, figure.experiments(own.figures)))
            found += [self.reports / "notebooks" / f"{paper}_{key}.ipynb" for key in list(run)[:1]]
        return found

    def _was_run(self, paper: str, experiments: Iterable[str]) -> bool:
        return any(self.plan[paper][name].runs for name in experiments)

    @property
    def partition_maps(self) -> dict[str, dict[Path, Path]]:
        """Paper -> the heat maps of its pages, each with the one that it is a copy of."""
        return {paper: partition_jobs.shown(group, self.paths, self.reports / paper) for paper, group in self.plan.items()}

    @property
    def whole_papers(self) -> list[str]:
        """Those that wait for no run."""
        return [paper for paper, group in self.plan.items() if not any(item.waiting for item in group.values())]

    def distrust_stamps(self) -> None:
        """Forget that artifacts are up to date whose files were changed or removed."""
        for paper, own in self.papers.items():
            incremental.distrust(own, self.reports / paper, self.stamps / paper)

    # MLflow

    @property
    def planned_runs(self) -> list[tuple[str, str, str, Run]]:
        """Paper, experiment, series and run of all that is planned."""
        return plan.listed(self.plan)

    @property
    def mirrored(self) -> Path:
        return self.paths.results / f"mlflow-{self.params.scale}.json"

    def mlflow_problem(self, made: Container[str]) -> str | None:
        """Why MLflow is not up to date, whatever was requested and whatever failed; None where it is. `made`: by jobs."""
        if str(self.mirrored) in made:
            return read_whole_json(self.mirrored, "problem")["problem"]
        if self.finished_before < {run.summary for run in self.runs if run.summary.exists()}:
            return mlflow_mirror.mirror(self.planned_runs, self.params.mlflow_uri, self.params.scale).problem
        return None
