"""The commands of `fedrepro`: each takes the parsed options and returns the exit code. They import
late, to start fast."""

import argparse
import contextlib
import gc
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from fedrepro.core.errors import Failures, UserError, on_signals, stop_on_signals, unknown_name
from fedrepro.core.files import single_process
from fedrepro.core.formatting import count

if TYPE_CHECKING:
    from fedrepro.experiments.plan import Plan, PlannedExperiment

PARAMS = Path("params.yaml")
STORE_LOCK = ".stored.lock"  # in results/; only one process at a time copies runs for DVC
log = logging.getLogger("fedrepro")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause garbage collection while modules and plans are made, which stay: it takes a quarter of
    the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Project:
    """The settings and folders that a command's options name, and the plan that follows from
    them."""

    def __init__(self, options: argparse.Namespace) -> None:
        from fedrepro.config.params import read_params
        from fedrepro.runs.paths import Paths

        settings = {
            key: getattr(options, key)
            for key in ("scale", "data_mirror", "device", "executor")
            if getattr(options, key)
        }
        self.file: Path = options.params
        try:
            self.params = read_params(self.file, settings).limit_cores(
                options.cores or available_cores()
            )
        except UserError as error:
            message = str(error)
            for key in settings:
                message = message.replace(f"{self.file}: {key}: ", f"--{key.replace('_', '-')}: ")
            raise UserError(message) from None
        self.paths = Paths(results=options.results)

    def plan(self, select: Callable[["Plan"], list["PlannedExperiment"]] | None = None) -> "Plan":
        """Return the plan of all experiments; first fetch the data of those that `select` returns,
        if their runs' names need it."""
        from fedrepro.experiments import plan, resolve

        where = self.params, self.paths
        planned = plan.plan_training(*where, select) if select else plan.plan_experiments(*where)
        resolve.check_other_scales(self.params)
        return planned

    @collection_paused()
    def select(self, targets: list[str], fetch_data: bool = True) -> list["PlannedExperiment"]:
        """Return the experiments of some targets, or all, and log warnings on them. `fetch_data`:
        first fetch their data."""
        from fedrepro.experiments import plan

        def choose(planned: "Plan") -> list["PlannedExperiment"]:
            if not targets:
                return plan.all_experiments(planned)
            from fedrepro.cli.targets import select_experiments

            return select_experiments(targets, planned, self.params)

        chosen = choose(self.plan(choose if fetch_data else None))
        if not all(item.blocked for item in chosen):  # then an error says it
            for warning in plan.warnings(chosen, self.params.active_scale.compare):
                log.warning(warning)
        return chosen

    def parallel_jobs(self, cores: int) -> int:
        """Return the number of jobs that may run at once."""
        from fedrepro.training import devices

        return devices.max_parallel_jobs(self.params.device, self.params.gpus, cores)


@collection_paused()
def list_targets(options: argparse.Namespace) -> int:
    """Print all targets with title, state and cost."""
    from fedrepro.cli import targets

    project = Project(options)
    listed = targets.list_targets(
        project.plan(), project.params, project.paths, project.parallel_jobs(options.cores)
    )
    sys.stdout.write(
        f"scale {project.params.scale}; left: time on {count(options.cores, 'core')}, by the "
        f"seconds of similar runs\n"
    )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    sys.stdout.write(targets.format_table(listed, width) + "\n")
    return 0


def verdicts(options: argparse.Namespace) -> int:
    """Print the verdicts on the tested claims of a paper, or on the main claims of all papers."""
    from fedrepro.cli.terminal.summary import describe_claims
    from fedrepro.report.documents import findings
    from fedrepro.report.paper import read_papers

    params = Project(options).params
    papers = read_papers(params)
    if options.paper and options.paper not in papers:
        raise unknown_name("paper", options.paper, papers)
    compared = [name for name, scale in params.scales.items() if scale.compare != "none"]
    rows = findings.answer_headlines(
        findings.collect_records(Path("reports"), papers, compared), papers, compared
    )
    shown = 0
    for paper in [options.paper] if options.paper else papers:
        for scale in [options.scale] if options.scale else compared:
            folder = Path("reports", scale, paper)
            if (folder / "tables" / "verdicts.json").exists():
                only = ", directions only" if params.scales[scale].compare == "direction" else ""
                title = f"{papers[paper].title}, scale {scale}{only}"
                known = [row for row in rows if row.headline.paper == paper and row.places[scale]]
                earlier = {row.headline.key: findings.cell(row.places[scale]) for row in known}
                text = describe_claims(title, folder, not options.paper, earlier, sys.stdout)
                sys.stdout.write(f"{text}\n")
                shown += 1
    if not shown:
        if options.scale and options.scale not in compared:
            raise UserError(
                f"scale {options.scale}: its results are not compared with the papers. Choose "
                f"from {', '.join(compared)}"
            )
        target = f" {options.paper}" if options.paper else ""
        command = (
            f"snakemake --cores 2{target} --config scale={options.scale or 'small'} "
            f"report_only=true"
        )
        raise UserError(
            f"reports: no verdicts yet. Make them, of the runs that are finished: {command}"
        )
    return 0


@dataclass(frozen=True)
class TrainingPlan:
    """Runs to train, studies to make of them, and the options of the functions that do it."""

    runs: list
    study_runs: list  # StudyRun
    paths: Any
    shared: dict[str, Any]  # options of training and of studies
    training: dict[str, Any]  # further options of training


def train(options: argparse.Namespace) -> int:
    """Train unfinished runs and make their studies; return 3 if the time budget ended the work."""
    from fedrepro.experiments import study_plan, study_runner
    from fedrepro.training import runner

    if options.part and not options.runs:
        raise UserError("--part: divides a list of runs. Name the list with --runs.")
    work = (
        _plan_from_list(options)
        if options.runs
        else _plan_from_settings(Project(options), options.targets)
    )
    limits = {
        "deadline": None if options.budget is None else time.monotonic() + options.budget,
        "failures": Failures(),
    }
    snapshots = study_plan.snapshots(work.study_runs)
    left = runner.train(
        work.runs, work.paths, **work.shared, **work.training, **limits, snapshots=snapshots
    )
    # a run that failed has no studies
    study_runs = [study for study in work.study_runs if study.run.summary.exists()]
    left = left or study_runner.run_studies(study_runs, work.paths, **work.shared, **limits)
    limits["failures"].raise_all()
    return 3 if left else 0


def _plan_from_settings(project: Project, targets: list[str]) -> TrainingPlan:
    """Return the runs and studies of some targets, or of all settings."""
    from fedrepro.experiments import plan

    params, paths, chosen = project.params, project.paths, project.select(targets)
    if params.report_only:
        log.warning("%s: report_only: true trains nothing", project.file)
    _require_unblocked(chosen)
    shared = {"mirror": params.mirror, "device": params.device_choice}
    training = {
        "executor": params.executor,
        "cores": params.cores_per_run,
        "checkpoint_seconds": params.checkpoint_seconds,
    }
    return TrainingPlan(
        plan.unique_runs(chosen), _unfinished_studies(chosen), paths, shared, training
    )


def _unfinished_studies(chosen: list["PlannedExperiment"]) -> list:
    """Return the unfinished studies of some experiments, each once."""
    from fedrepro.experiments import plan

    return [
        work.item
        for work in plan.planned_work(chosen)
        if work.is_study and not work.done_file.exists()
    ]


def _require_unblocked(chosen: list["PlannedExperiment"]) -> None:
    """Raise UserError with the reasons if no experiment can be run."""
    if chosen and all(item.blocked for item in chosen):
        raise UserError(
            "\n".join(dict.fromkeys(f"{item.paper} {item.name}: {item.skipped}" for item in chosen))
        )


def _plan_from_list(options: argparse.Namespace) -> TrainingPlan:
    """Return the runs and studies in a list of runs, which needs no settings."""
    from fedrepro.config.params import DeviceChoice, data_mirror
    from fedrepro.config.types import Executor
    from fedrepro.experiments import run_list
    from fedrepro.runs.paths import Paths

    choices = {
        "--scale": options.scale,
        "--params": options.params != PARAMS,
        "targets": options.targets,
    }
    if refused := [name for name, value in choices.items() if value]:
        raise UserError(
            f"--runs: trains what is in the list, and cannot be combined with {', '.join(refused)}"
        )
    paths = Paths(results=options.results)
    shared = {
        "mirror": data_mirror(options.data_mirror),
        "device": DeviceChoice(options.device or "auto"),
    }
    executor, part, parts = options.executor or "auto", *(options.part or (1, 1))
    if executor not in get_args(Executor):
        raise unknown_name("executor", executor, get_args(Executor))
    listed = list(run_list.read(options.runs, paths).items())[part - 1 :: parts]
    study_runs = [study for _, studies in listed for study in studies]
    return TrainingPlan(
        [run for run, _ in listed], study_runs, paths, shared, {"executor": executor}
    )


def run(options: argparse.Namespace) -> int:
    """Train methods on settings of the command line, and compare them."""
    from fedrepro.cli import own_run

    return own_run.run(options, Project)


def plan(options: argparse.Namespace) -> int:
    """Print the unfinished runs of some experiments and their cost; with `--export` write them to a
    file."""
    from fedrepro.experiments import cost
    from fedrepro.experiments.plan import planned_work

    project = Project(options)
    chosen = project.select(options.targets, fetch_data=bool(options.export))
    if options.export:
        _export(chosen, project, options.export)
    pending = cost.missing_work(planned_work(chosen), project.params, project.paths)
    sys.stdout.write(
        cost.plan_table(chosen, pending, project.parallel_jobs(options.cores), project.params.scale)
        + "\n"
    )
    return 0


def _export(chosen: list, project: Project, path: Path) -> None:
    """Write the unfinished runs and studies of experiments to a file."""
    from fedrepro.experiments import plan, run_list
    from fedrepro.runs.run import run_id

    unfinished = _unfinished_studies(chosen)
    study_runs = [
        study for study in unfinished if study.run.id == run_id(study.run.config, study.run.data)
    ]
    if len(study_runs) < len(unfinished):
        text = (
            f"left out: {count(len(unfinished) - len(study_runs), 'study', 'studies')} of "
            f"runs that earlier code trained"
        )
        log.warning("%s; make them on the machine that has these runs", text)
    run_list.write(plan.unique_runs(chosen), study_runs, path)


def tune(options: argparse.Namespace) -> int:
    """Run the trials of tuned series whose chosen values are not current, and write the chosen
    values."""
    from fedrepro.experiments import trials

    options.params = PARAMS
    project = Project(options)
    unknown = [paper for paper in options.papers if paper not in project.params.papers]
    if unknown:
        raise unknown_name("paper", unknown[0], project.params.papers)
    papers = options.papers or list(project.params.papers)
    planned = trials.plan_trials(project.params, project.paths, papers, fetch=True)
    stale = [series for series in planned if series.stale]
    sys.stdout.writelines(f"{series.location}: {series.stale}\n" for series in stale)
    sys.stdout.flush()
    while any(series.unfinished for series in stale):
        overrides = [
            f"{key}={getattr(options, key)}"
            for key in ("scale", "data_mirror", "device")
            if getattr(options, key)
        ]
        targets = [f"tune_{paper}" for paper in dict.fromkeys(series.paper for series in stale)]
        command = [sys.executable, "-m", "snakemake", "--cores", str(options.cores), *targets]
        process = subprocess.Popen([*command, *(["--config", *overrides] if overrides else [])])
        on_signals(process.terminate)  # it stops its jobs, and says so
        if code := process.wait():
            return code
        stop_on_signals()
        planned = trials.plan_trials(project.params, project.paths, papers)
        stale = [series for series in planned if series.stale]
    changed = trials.write_choices(planned, project.params)
    sys.stdout.writelines(f"{path}: written\n" for path in changed)
    if not changed:
        sys.stdout.write(
            "all chosen values are up to date\n"
            if planned
            else "no series is tuned at this scale\n"
        )
    return 0


def keep(options: argparse.Namespace) -> int:
    """Copy finished runs to results/kept, and print them."""
    from fedrepro.experiments import keep, plan

    project = Project(options)
    project.params = project.params.same_data
    chosen = project.select(options.targets)
    _require_unblocked(chosen)
    folders = keep.keep(chosen, project.paths)
    sys.stdout.writelines(f"{folder.parent.stem} {folder.name}\n" for folder in folders)
    runs = plan.unique_runs(chosen)
    text = f"{sum(run.summary.exists() for run in runs)} of {count(len(runs), 'run')} are finished"
    kept = sum(run.is_kept for run in runs)
    if folders:
        sys.stdout.write(f"kept {count(len(folders), 'run')}; {text}\n")
    else:
        sys.stdout.write(
            f"nothing to keep: {text}{f', {kept} of them kept before' if kept else ''}\n"
        )
    return 0


def store(options: argparse.Namespace) -> int:
    """Copy finished runs to DVC's folder, and print the changed folders."""
    return _copy_runs(options, back=False)


def restore(options: argparse.Namespace) -> int:
    """Copy runs from DVC's folder, and print the changed folders."""
    return _copy_runs(options, back=True)


def _copy_runs(options: argparse.Namespace, back: bool) -> int:
    """Copy the runs of each selected paper to the folder in which DVC stores them, or `back`."""
    from fedrepro.runs import dvc_store

    project = Project(options)
    papers = list(project.params.papers)
    if options.paper and options.paper not in papers:
        raise unknown_name("paper", options.paper, papers)
    with single_process(options.results / STORE_LOCK):
        for paper in [options.paper] if options.paper else papers:
            runs, stored = project.paths.runs(paper), project.paths.stored(paper)
            changed = dvc_store.restore(stored, runs) if back else dvc_store.store(runs, stored)
            sys.stdout.writelines(f"{folder}\n" for folder in changed)
    return 0


def prune(options: argparse.Namespace) -> int:
    """Print the runs and partitions that no scale uses, one a line."""
    from fedrepro.experiments import prune

    project = Project(options)
    paths = prune.unused(project.params, project.paths, other_code=options.other_code)
    sys.stdout.writelines(f"{path}\n" for path in paths)
    if not paths:  # apart from paths, which another program may delete
        sys.stderr.write(f"nothing to prune: {project.file} names all that is there\n")
    return 0


def notebook(options: argparse.Namespace) -> int:
    """Write a notebook on a figure's numbers, and print its path."""
    from fedrepro.report.documents import notebook

    params = Project(options).params
    path = notebook.write(options.target, params, options.out)
    command = f"snakemake --cores 2 {options.target} --config scale={params.scale}"
    sys.stdout.write(f"{path}\nthe figure's numbers, where they are not there yet: {command}\n")
    return 0


def new(options: argparse.Namespace) -> int:
    """Write the files of a new method, model, data set or paper; print them and the commands to go
    on with."""
    from fedrepro.cli import new as templates

    paths = templates.write(options.kind, options.name)
    commands = [
        command.replace(templates.PLACEHOLDER, options.name)
        for command in templates.NEXT[options.kind]
    ]
    sys.stdout.write(
        "".join(f"{path}\n" for path in paths)
        + "".join(f"next: {command}\n" for command in commands)
    )
    return 0


def docs(options: argparse.Namespace) -> int:
    """Write docs/configuration.md and the JSON schemas that are out of date."""
    from fedrepro.cli import docs as generated

    if not PARAMS.is_file():
        raise UserError(f"{PARAMS}: no such file. Run the command in the folder of the repository.")
    if sys.flags.optimize > 1:
        raise UserError(
            f"PYTHONOPTIMIZE={sys.flags.optimize}: Python leaves out the texts that are written. "
            f"Unset the variable."
        )
    sys.stdout.write(
        "".join(f"{path} written\n" for path in generated.write())
        or "all generated files are up to date\n"
    )
    return 0
