"""What each command does: from the parsed options to the exit code. They import what they need, so that each starts fast."""

import argparse
import json
import logging
import os
import sys
import time
from pathlib import Path

from fedrepro.core.errors import Failures, UserError
from fedrepro.core.formatting import count
from fedrepro.runs.integrity import is_kept

PARAMS = Path("params.yaml")


def _settings(options: argparse.Namespace):
    from fedrepro.config.params import read_params
    from fedrepro.runs.paths import Paths

    given = {key: getattr(options, key) for key in ("scale", "data_mirror", "device", "executor")}
    params = read_params(options.params, {key: value for key, value in given.items() if value is not None})
    return params.on(getattr(options, "cores", None) or available()), Paths(results=options.results)


def available() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _selected(options: argparse.Namespace, bring: bool = True):
    """Settings, folders and the experiments that the options choose. `bring`: after their data were fetched or drawn, where
    only the data tell which runs are meant."""
    from fedrepro.experiments import plan as experiments
    from fedrepro.experiments import resolve

    params, paths = _settings(options)

    def choose(planned):
        chosen = experiments.select(planned, options.paper, options.experiment)
        if options.targets:
            from fedrepro.cli import targets

            own = targets.selected(options.targets, planned, params)
            chosen = [item for item in chosen if item in own]
            if not chosen:
                raise UserError(f"{' '.join(options.targets)}: none of it belongs to what --paper and --experiment name")
        return chosen

    file = str(options.params)
    planned = experiments.plan_training(params, paths, file, choose) if bring else experiments.plan(params, paths, file)
    resolve.check(params, file)
    chosen = choose(planned)
    if not all(item.lacking for item in chosen):  # then an error says it
        for remark in experiments.remarks(chosen, params.active.compare):
            logging.getLogger("fedrepro").warning(remark)
    return params, paths, chosen


def list_targets(options: argparse.Namespace) -> int:
    from fedrepro.cli import targets
    from fedrepro.experiments import plan as experiments
    from fedrepro.experiments import resolve
    from fedrepro.training import devices

    params, paths = _settings(options)
    planned = experiments.plan(params, paths, str(options.params))
    resolve.check(params, str(options.params))
    experiments.select(planned, options.paper, None)
    cores = devices.at_once(params.device, params.gpus, options.cores)
    found = targets.lines(planned, params, paths, cores, options.paper)
    sys.stdout.write(f"scale {params.scale}; left: time on {count(cores, 'core')}, rough where never measured\n")
    sys.stdout.write(targets.table(found) + "\n")
    return 0


def train(options: argparse.Namespace) -> int:
    from fedrepro.config.params import mirror
    from fedrepro.experiments import plan as experiments
    from fedrepro.experiments import run_list, study_plan, study_runner
    from fedrepro.runs.paths import Paths
    from fedrepro.training import runner

    deadline = None if options.budget is None else time.monotonic() + options.budget
    failures = Failures()
    if options.runs:
        _refuse_choices(options)
        paths = Paths(results=options.results)
        runs = run_list.read(options.runs, paths)
        where = {"device": options.device or "auto", "executor": options.executor or "auto"}
        cases, given = study_plan.read(options.runs, paths), {"mirror": mirror(options.data_mirror), "device": where["device"]}
        more = {"deadline": deadline, "snapshots": study_plan.snapshots(cases).rounds, "failures": failures}
        left = runner.train(runs, paths, mirror=given["mirror"], **where, **more)
    else:
        params, paths, chosen = _selected(options)
        if params.only_finished:
            logging.getLogger("fedrepro").warning("%s: only_finished: true trains nothing", options.params)
        if chosen and all(item.lacking for item in chosen):
            raise UserError("\n".join(dict.fromkeys(f"{item.paper} {item.name}: {item.skipped}" for item in chosen)))
        cases = study_plan.unfinished(chosen, params, paths)
        given = {"mirror": params.mirror, "device": params.device, "gpus": params.gpus}
        left = runner.train(
            experiments.unique(chosen),
            paths,
            **given,
            executor=params.executor,
            cores=params.cores_per_run,
            checkpoint_seconds=params.checkpoint_seconds,
            deadline=deadline,
            snapshots=study_plan.snapshots(cases).rounds,
            failures=failures,
        )
    cases = [case for case in cases if case.run.summary.exists()]  # of a run that failed there is nothing to study
    left = left or study_runner.conduct(cases, paths, deadline=deadline, failures=failures, **given)
    failures.tell()
    return 3 if left else 0


def _refuse_choices(options: argparse.Namespace) -> None:
    """A list of runs says itself which they are."""
    given = {f"--{name}": getattr(options, name) for name in ("scale", "paper", "experiment")}
    given |= {"--params": options.params if options.params != PARAMS else None, "targets": options.targets}
    if refused := [name for name, value in given.items() if value]:
        raise UserError(f"--runs: trains what is in the list, and cannot be combined with {', '.join(refused)}")


def plan(options: argparse.Namespace) -> int:
    from fedrepro.experiments import cost, run_list, study_plan
    from fedrepro.experiments import plan as experiments
    from fedrepro.runs.run import run_id
    from fedrepro.training import devices

    params, paths, chosen = _selected(options, bring=bool(options.export))
    if options.export:
        every = study_plan.unfinished(chosen, params, paths)
        cases = [case for case in every if case.run.id == run_id(case.run.config, case.run.data)]
        if len(cases) < len(every):
            told = f"left out: {count(len(every) - len(cases), 'study', 'studies')} of runs that earlier code trained"
            logging.getLogger("fedrepro").warning("%s; make them where these runs lie", told)
        runs = {run.folder: run for run in (*experiments.unique(chosen), *(case.run for case in cases))}  # some of kept runs
        run_list.write(list(runs.values()), options.export, study_plan.listed(cases))
    left = cost.entries(chosen, params, paths, lambda name: sys.stderr.write(f"measuring the speed of {name}\n"))
    cores = devices.at_once(params.device, params.gpus, options.cores)
    sys.stdout.write(cost.plan(chosen, left, cores, params.scale) + "\n")
    return 0


def keep(options: argparse.Namespace) -> int:
    from fedrepro.experiments import keep as keeping
    from fedrepro.experiments import plan as experiments

    keeping.settle(options.results)
    _, paths, chosen = _selected(options)
    folders = keeping.keep(chosen, paths)
    sys.stdout.writelines(f"{folder}\n" for folder in folders)
    runs = experiments.unique(chosen)
    told = f"{sum(run.summary.exists() for run in runs)} of {count(len(runs), 'run')} are finished"
    kept = sum(is_kept(run.folder) for run in runs)
    if folders:
        sys.stdout.write(f"kept {count(len(folders), 'run')}; {told}\n")
    else:
        sys.stdout.write(f"nothing to keep: {told}{f', {kept} of them kept before' if kept else ''}\n")
    return 0


def store(options: argparse.Namespace) -> int:
    from fedrepro.runs import dvc_store

    paths, papers = _papers(options)
    for paper in papers:
        sys.stdout.writelines(f"{folder}\n" for folder in dvc_store.store(paths.runs(paper), paths.stored(paper)))
    return 0


def restore(options: argparse.Namespace) -> int:
    from fedrepro.runs import dvc_store

    paths, papers = _papers(options)
    for paper in papers:
        sys.stdout.writelines(f"{folder}\n" for folder in dvc_store.restore(paths.stored(paper), paths.runs(paper)))
    return 0


def _papers(options: argparse.Namespace):
    """Folders, and the papers that the options choose."""
    from fedrepro.experiments import plan as experiments

    params, paths = _settings(options)
    return paths, experiments.papers(options.paper, params.papers)


def prune(options: argparse.Namespace) -> int:
    from fedrepro.experiments import prune as pruning

    params, paths = _settings(options)
    found = pruning.prune(params, paths, delete=options.yes, file=str(options.params), other_code=options.other_code)
    for path in found:
        sys.stdout.write(f"{'deleted' if options.yes else 'would delete'} {path}\n")
    if not found:
        sys.stdout.write(f"nothing to prune: {options.params} names all that is there\n")
    elif not options.yes:
        sys.stdout.write(f"{count(len(found), 'folder or file', 'folders and files')}; --yes deletes them\n")
    return 0


def notebook(options: argparse.Namespace) -> int:
    from fedrepro.report.documents import notebook

    params, _ = _settings(options)
    path = notebook.write(options.target, params, options.out)
    made = f"snakemake --cores 2 {options.target} --config scale={params.scale}"
    sys.stdout.write(f"{path}\nthe figure's numbers, where they are not there yet: {made}\n")
    return 0


def docs(options: argparse.Namespace) -> int:
    from fedrepro.cli import docs as configuration

    sys.stdout.write(f"{configuration.PAGE} {'written' if configuration.write() else 'is up to date'}\n")
    return 0


def schema(options: argparse.Namespace) -> int:
    from fedrepro.config.json_schema import of_settings
    from fedrepro.report.paper import of_artifacts

    described = {"settings": of_settings, "artifacts": of_artifacts}[options.of]()
    sys.stdout.write(json.dumps(described, indent=1) + "\n")
    return 0
