"""The command line: `fedrepro train | plan | keep | prune | schema`. Snakemake calls the same functions."""

import argparse
import json
import logging
import re
import sys
import time
from pathlib import Path

from fedrepro.engine import progress
from fedrepro.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit code 0; 2 for the user's mistakes, told in one message; 3 when a time budget ended the work."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        progress.quiet_rounds(handler)
    try:
        return options.command(options)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped; the same command goes on from the last checkpoint\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fedrepro", description="Reproduce four federated-learning papers.")
    commands = parser.add_subparsers(required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--params", type=Path, default=Path("params.yaml"), help="settings file (params.yaml)")
    common.add_argument("--scale", help="overrides the scale of the settings file")
    common.add_argument("--data-mirror", dest="data_mirror", help="folder or URL with the data sets' files")
    common.add_argument("--device", help="auto, cpu or cuda")
    common.add_argument("--executor", help="auto, sequential or stacked; on CUDA also sequential+graph, stacked+graph")
    common.add_argument("--paper", help="only this paper")
    common.add_argument("--experiment", action="append", help="only this experiment; may be given several times")
    common.add_argument("--results", type=Path, default=Path("results"), help="where runs lie (results)")
    for name, command, text in (
        ("train", _train, "train what is not finished"),
        ("plan", _plan, "what would run, and what it costs"),
        ("keep", _keep, "copy finished runs to results/kept, to be committed"),
        ("prune", _prune, "delete runs and partitions that no settings name any more"),
        ("schema", _schema, "print the JSON schema of the settings file"),
    ):
        sub = commands.add_parser(name, help=text, parents=[common])
        sub.set_defaults(command=command)
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
    return parser


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number with s, m or h, e.g. 9m")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _settings(options: argparse.Namespace):
    from fedrepro.config import read_params
    from fedrepro.experiments import Paths

    given = {key: getattr(options, key) for key in ("scale", "data_mirror", "device", "executor")}
    params = read_params(options.params, {key: value for key, value in given.items() if value is not None})
    return params, Paths(results=options.results)


def _selected(options: argparse.Namespace):
    """Settings, folders and the experiments that the options choose."""
    from fedrepro import experiments

    params, paths = _settings(options)
    planned = experiments.plan(params, paths, str(options.params))
    return params, paths, experiments.select(planned, options.paper, options.experiment)


def _train(options: argparse.Namespace) -> int:
    from fedrepro import conducting, experiments, export, studying, training

    deadline = None if options.budget is None else time.monotonic() + options.budget
    if options.runs:
        paths = experiments.Paths(results=options.results)
        runs = export.read(options.runs, paths)
        where = {"device": options.device or "auto", "executor": options.executor or "auto"}
        cases, given = studying.read(options.runs, paths), {"mirror": options.data_mirror, "device": where["device"]}
        stored = studying.snapshots(cases).rounds
        left = training.train(runs, paths, mirror=options.data_mirror, budget=options.budget, snapshots=stored, **where)
    else:
        params, paths, chosen = _selected(options)
        cases, given = studying.unfinished(chosen, params, paths), {"mirror": params.mirror, "device": params.device}
        left = training.train(
            experiments.unique(chosen),
            paths,
            mirror=params.mirror,
            device=params.device,
            executor=params.executor,
            checkpoint_seconds=params.checkpoint_seconds,
            budget=options.budget,
            snapshots=studying.snapshots(cases).rounds,
        )
    left = left or conducting.conduct(cases, paths, deadline=deadline, **given)
    return 3 if left else 0


def _plan(options: argparse.Namespace) -> int:
    from fedrepro import estimate, experiments, export, studying

    params, paths, chosen = _selected(options)
    if options.export:
        studies = studying.listed(studying.unfinished(chosen, params, paths))
        export.write(experiments.unique(chosen), options.export, studies)
    sys.stdout.write(estimate.report(params, paths, chosen) + "\n")
    return 0


def _keep(options: argparse.Namespace) -> int:
    from fedrepro import shelf

    _, paths, chosen = _selected(options)
    for folder in shelf.keep(chosen, paths):
        sys.stdout.write(f"{folder}\n")
    return 0


def _prune(options: argparse.Namespace) -> int:
    from fedrepro import shelf

    params, paths = _settings(options)
    for path in shelf.prune(params, paths, delete=options.yes, file=str(options.params)):
        sys.stdout.write(f"{'deleted' if options.yes else 'would delete'} {path}\n")
    return 0


def _schema(options: argparse.Namespace) -> int:
    from fedrepro.config import schema

    sys.stdout.write(json.dumps(schema(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
