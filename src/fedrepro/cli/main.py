"""The command line, `fedrepro`: its commands stand in `COMMANDS`."""

import argparse
import io
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from fedrepro import __version__
from fedrepro.cli import commands
from fedrepro.core.errors import UserError, explained, interrupted, stoppable
from fedrepro.training import progress_bar


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit code 0; 2 for the user's mistakes, told in one message; 3 when a time budget ended the work."""
    try:
        stoppable()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # titles have letters that not every terminal has
        options = _parser().parse_args(arguments)
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        for handler in logging.getLogger().handlers:
            progress_bar.quiet_rounds(handler)
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
    subparsers, cores = parser.add_subparsers(required=True), commands.available()
    for name, command, obeyed, text in COMMANDS:
        sub = subparsers.add_parser(name, help=text, allow_abbrev=False)
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
        if name == "schema":
            told = "settings: params.yaml (the default); artifacts: workflow/experiments/<paper>.yaml"
            sub.add_argument("of", nargs="?", choices=("settings", "artifacts"), default="settings", help=told)
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


COMMON: dict[str, dict[str, Any]] = {  # options that several commands share
    "params": {"type": Path, "default": commands.PARAMS, "help": "settings file (params.yaml)"},
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
        commands.list_targets,
        "params scale data-mirror device executor paper results",
        "every target with its title, its state and what is left of it",
    ),
    ("train", commands.train, WORK, "train what is not finished"),
    ("plan", commands.plan, WORK, "what would run, and what it costs"),
    (
        "keep",
        commands.keep,
        "params scale data-mirror paper experiment results",
        "copy finished runs to results/kept, to be committed",
    ),
    ("store", commands.store, "params paper results", "give results/stored, which is DVC's, the finished runs that it lacks"),
    ("restore", commands.restore, "params paper results", "give results/runs the finished runs that DVC brought"),
    (
        "prune",
        commands.prune,
        "params data-mirror results",
        "delete runs and partitions that no scale of the settings names any more",
    ),
    ("notebook", commands.notebook, "params scale", "write a notebook that goes on from a figure's numbers"),
    ("docs", commands.docs, "", "write docs/configuration.md from the descriptions of the settings"),
    ("schema", commands.schema, "", "print the JSON schema of the settings file, or of what says what artifacts are"),
)

if __name__ == "__main__":
    sys.exit(main())
