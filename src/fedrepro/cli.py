"""The command line, `fedrepro`: its commands stand in `COMMANDS`."""

import argparse
import io
import json
import logging
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from fedrepro import __version__
from fedrepro.engine import progress
from fedrepro.errors import Failures, UserError, explained, interrupted, stoppable
from fedrepro.results import is_kept
from fedrepro.words import count


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit code 0; 2 for the user's mistakes, told in one message; 3 when a time budget ended the work."""
    try:
        stoppable()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # titles have letters that not every terminal has
        options = _parser().parse_args(arguments)
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        for handler in logging.getLogger().handlers:
            progress.quiet_rounds(handler)
        code = options.command(options)
        sys.stdout.flush()
        return code
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except BaseException as error:
        if interrupted(error):
            sys.stderr.write("stopped; the same command goes on from the last checkpoint\n")
            return 130
        if isinstance(error, BrokenPipeError) and _unread():
            return 0
        if (told := explained(error)) is None:
            raise
        sys.stderr.write(f"error: {told}\n")
        return 2


def _unread() -> bool:
    """Whether nobody reads what is written, as after `| head`; the rest of it then goes nowhere."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fedrepro", description="Reproduce four federated-learning papers.")
    parser.add_argument("--version", action="version", version=f"fedrepro {__version__}")
    commands, cores = parser.add_subparsers(required=True), _available()
    for name, command, obeyed, text in COMMANDS:
        sub = commands.add_parser(name, help=text, allow_abbrev=False)
        silent = dict.fromkeys(("scale", "data_mirror", "device", "executor")) | {"results": Path("results")}
        sub.set_defaults(command=command, targets=[], **silent)
        for option in obeyed.split():
            sub.add_argument(f"--{option}", dest=option.replace("-", "_"), **COMMON[option])
        if name in ("train", "plan", "keep"):
            sub.add_argument("targets", nargs="*", metavar="target", help="only what this figure, table or paper needs")
        if name in ("list", "plan"):
            sub.add_argument("--cores", type=_cores, default=cores, help=f"for which the time is told ({cores})")
        if name == "notebook":
            sub.add_argument("target", help="a figure, as `fedrepro list` names it")
            sub.add_argument("--out", type=Path, help="file (reports/<scale>/notebooks/<paper>_<figure>.ipynb)")
        if name == "train":
            sub.add_argument("--budget", type=_seconds, help="stop cleanly after this long, e.g. 90s, 9m, 2h")
            sub.add_argument(
                "--runs", type=Path, help="a list of runs that `fedrepro plan --export` wrote, instead of settings"
            )
        if name == "plan":
            sub.add_argument(
                "--export", type=Path, help="write the unfinished runs to this file, for a machine without settings"
            )
        if name == "prune":
            sub.add_argument("--yes", action="store_true", help="delete; without it the folders are only listed")
            sub.add_argument(
                "--other-code", action="store_true", help="also finished runs whose settings are named, but of earlier code"
            )
    return parser


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number with s, m or h, e.g. 9m")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _cores(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"'{text}': expected a whole number, at least 1")
    return int(text)


def _settings(options: argparse.Namespace):
    from fedrepro.config import read_params
    from fedrepro.paths import Paths

    given = {key: getattr(options, key) for key in ("scale", "data_mirror", "device", "executor")}
    params = read_params(options.params, {key: value for key, value in given.items() if value is not None})
    return params.on(getattr(options, "cores", None) or _available()), Paths(results=options.results)


def _available() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _selected(options: argparse.Namespace):
    """Settings, folders and the experiments that the options choose."""
    from fedrepro import experiments, resolving

    params, paths = _settings(options)
    planned = experiments.plan(params, paths, str(options.params))
    resolving.check(params, str(options.params))
    chosen = experiments.select(planned, options.paper, options.experiment)
    if options.targets:
        from fedrepro import listing

        own = listing.selected(options.targets, planned, params)
        chosen = [item for item in chosen if item in own]
        if not chosen:
            raise UserError(f"{' '.join(options.targets)}: none of it belongs to what --paper and --experiment name")
    if not all(item.lacking for item in chosen):  # then an error says it
        for remark in experiments.remarks(chosen):
            logging.getLogger("fedrepro").warning(remark)
    return params, paths, chosen


def _list(options: argparse.Namespace) -> int:
    from fedrepro import devices, experiments, listing, resolving

    params, paths = _settings(options)
    planned = experiments.plan(params, paths, str(options.params))
    resolving.check(params, str(options.params))
    experiments.select(planned, options.paper, None)
    cores = devices.at_once(params.device, params.gpus, options.cores)
    found = listing.lines(planned, params, paths, cores, options.paper)
    sys.stdout.write(f"scale {params.scale}; left: time on {count(cores, 'core')}, rough where never measured\n")
    sys.stdout.write(listing.table(found) + "\n")
    return 0


def _train(options: argparse.Namespace) -> int:
    from fedrepro import conducting, experiments, export, studying, training
    from fedrepro.config import mirror
    from fedrepro.paths import Paths

    deadline = None if options.budget is None else time.monotonic() + options.budget
    failures = Failures()
    if options.runs:
        _refuse_choices(options)
        paths = Paths(results=options.results)
        runs = export.read(options.runs, paths)
        where = {"device": options.device or "auto", "executor": options.executor or "auto"}
        cases, given = studying.read(options.runs, paths), {"mirror": mirror(options.data_mirror), "device": where["device"]}
        more = {"deadline": deadline, "snapshots": studying.snapshots(cases).rounds, "failures": failures}
        left = training.train(runs, paths, mirror=given["mirror"], **where, **more)
    else:
        params, paths, chosen = _selected(options)
        if chosen and all(item.lacking for item in chosen):
            raise UserError("\n".join(dict.fromkeys(f"{item.paper} {item.name}: {item.skipped}" for item in chosen)))
        cases = studying.unfinished(chosen, params, paths)
        given = {"mirror": params.mirror, "device": params.device, "gpus": params.gpus}
        left = training.train(
            experiments.unique(chosen),
            paths,
            **given,
            executor=params.executor,
            cores=params.cores_per_run,
            checkpoint_seconds=params.checkpoint_seconds,
            deadline=deadline,
            snapshots=studying.snapshots(cases).rounds,
            failures=failures,
        )
    cases = [case for case in cases if case.run.summary.exists()]  # of a run that failed there is nothing to study
    left = left or conducting.conduct(cases, paths, deadline=deadline, failures=failures, **given)
    failures.tell()
    return 3 if left else 0


def _refuse_choices(options: argparse.Namespace) -> None:
    """A list of runs says itself which they are."""
    given = {f"--{name}": getattr(options, name) for name in ("scale", "paper", "experiment")}
    given |= {"--params": options.params if options.params != PARAMS else None, "targets": options.targets}
    if refused := [name for name, value in given.items() if value]:
        raise UserError(f"--runs: trains what is in the list, and cannot be combined with {', '.join(refused)}")


def _plan(options: argparse.Namespace) -> int:
    from fedrepro import bill, devices, experiments, export, studying
    from fedrepro.runs import run_id

    params, paths, chosen = _selected(options)
    if options.export:
        every = studying.unfinished(chosen, params, paths)
        cases = [case for case in every if case.run.id == run_id(case.run.config, case.run.data)]
        if len(cases) < len(every):
            told = f"left out: {count(len(every) - len(cases), 'study', 'studies')} of runs that earlier code trained"
            logging.getLogger("fedrepro").warning("%s; make them where these runs lie", told)
        runs = {run.folder: run for run in (*experiments.unique(chosen), *(case.run for case in cases))}  # some of kept runs
        export.write(list(runs.values()), options.export, studying.listed(cases))
    left = bill.entries(chosen, params, paths, lambda name: sys.stderr.write(f"measuring the speed of {name}\n"))
    cores = devices.at_once(params.device, params.gpus, options.cores)
    sys.stdout.write(bill.plan(chosen, left, cores, params.scale) + "\n")
    return 0


def _keep(options: argparse.Namespace) -> int:
    from fedrepro import experiments, keeping

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


def _store(options: argparse.Namespace) -> int:
    from fedrepro import stored

    paths, papers = _papers(options)
    for paper in papers:
        sys.stdout.writelines(f"{folder}\n" for folder in stored.store(paths.runs(paper), paths.stored(paper)))
    return 0


def _restore(options: argparse.Namespace) -> int:
    from fedrepro import stored

    paths, papers = _papers(options)
    for paper in papers:
        sys.stdout.writelines(f"{folder}\n" for folder in stored.restore(paths.stored(paper), paths.runs(paper)))
    return 0


def _papers(options: argparse.Namespace):
    """Folders, and the papers that the options choose."""
    from fedrepro import experiments

    params, paths = _settings(options)
    return paths, experiments.papers(options.paper, params.papers)


def _prune(options: argparse.Namespace) -> int:
    from fedrepro import pruning

    params, paths = _settings(options)
    found = pruning.prune(params, paths, delete=options.yes, file=str(options.params), other_code=options.other_code)
    for path in found:
        sys.stdout.write(f"{'deleted' if options.yes else 'would delete'} {path}\n")
    if not found:
        sys.stdout.write(f"nothing to prune: {options.params} names all that is there\n")
    elif not options.yes:
        sys.stdout.write(f"{count(len(found), 'folder or file', 'folders and files')}; --yes deletes them\n")
    return 0


def _notebook(options: argparse.Namespace) -> int:
    from fedrepro.report import notebook

    params, _ = _settings(options)
    path = notebook.write(options.target, params, options.out)
    sys.stdout.write(
        f"{path}\nneeds the figure's numbers: snakemake --cores 2 {options.target} --config scale={params.scale}\n"
    )
    return 0


def _docs(options: argparse.Namespace) -> int:
    from fedrepro.report import guide

    changed = guide.write()
    sys.stdout.write("".join(f"wrote {path}\n" for path in changed) or "README.md and docs/ are up to date\n")
    return 0


def _schema(options: argparse.Namespace) -> int:
    from fedrepro import schema

    sys.stdout.write(json.dumps(schema.write(), indent=1) + "\n")
    return 0


PARAMS = Path("params.yaml")
COMMON: dict[str, dict[str, Any]] = {  # options that several commands share
    "params": {"type": Path, "default": PARAMS, "help": "settings file (params.yaml)"},
    "scale": {"help": "overrides the scale of the settings file"},
    "data-mirror": {"help": "folder or URL with the data sets' files"},
    "device": {"help": "auto, cpu or cuda"},
    "executor": {"help": "auto, sequential or stacked; on CUDA also sequential+graph, stacked+graph"},
    "paper": {"help": "only this paper"},
    "experiment": {"action": "append", "help": "only this experiment; may be given several times"},
    "results": {"type": Path, "default": Path("results"), "help": "where runs lie (results)"},
}
WORK = "params scale data-mirror device executor paper experiment results"
COMMANDS = (  # name, function, those of the shared options that it obeys, what it does
    (
        "list",
        _list,
        "params scale data-mirror device executor paper results",
        "every target with its title, its state and what is left of it",
    ),
    ("train", _train, WORK, "train what is not finished"),
    ("plan", _plan, WORK, "what would run, and what it costs"),
    ("keep", _keep, "params scale data-mirror paper experiment results", "copy finished runs to results/kept, to be committed"),
    ("store", _store, "params paper results", "give results/stored, which is DVC's, the finished runs that it lacks"),
    ("restore", _restore, "params paper results", "give results/runs the finished runs that DVC brought"),
    ("prune", _prune, "params data-mirror results", "delete runs and partitions that no scale of the settings names any more"),
    ("notebook", _notebook, "params scale", "write a notebook that goes on from a figure's numbers"),
    ("docs", _docs, "", "write README's table of artifacts and docs/ anew from the committed results"),
    ("schema", _schema, "", "print the JSON schema of the settings file"),
)

if __name__ == "__main__":
    sys.exit(main())
