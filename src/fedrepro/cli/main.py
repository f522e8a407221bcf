"""The command line `fedrepro`."""

import argparse
import io
import logging
import os
import re
import select
import sys
from pathlib import Path
from typing import Any

from fedrepro.cli import commands
from fedrepro.cli.terminal import painted
from fedrepro.core.errors import (
    STOPPED,
    UserError,
    as_user_error,
    is_interrupt,
    on_signals,
    stop_on_signals,
)
from fedrepro.core.version import package_version


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0; 2 after a UserError, with its message; 3 if the time budget
    ended; 130 after an interrupt."""
    try:
        stop_on_signals()
        if isinstance(sys.stdout, io.TextIOWrapper):
            # not every terminal can encode the letters in titles
            sys.stdout.reconfigure(errors="replace")
        words = sys.argv[1:] if arguments is None else arguments
        if empty := [word for word in words if re.fullmatch("(--[a-z-]+=)?", word)]:
            raise UserError(f"{empty[0] or 'an argument'}: empty. Give a value, or leave it out.")
        options, more = (parser := _parser()).parse_known_args(words)
        if more and (not hasattr(options, "words") or more[0].startswith("-")):
            parser.error(f"unrecognized arguments: {' '.join(more)}")
        if more:  # words after an option, of which argparse takes the first group alone
            options.words += more
        from fedrepro.training import progress_bar  # slow to import

        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        for handler in logging.getLogger().handlers:
            progress_bar.quiet_rounds(handler)
        code = options.command(options)
        sys.stdout.flush()
        return code
    except BaseException as error:
        if is_interrupt(error):
            on_signals(lambda: os._exit(130))  # a second Ctrl-C meets a process that is ending
            sys.stderr.write(f"{STOPPED}\n")
            return 130
        if isinstance(error, BrokenPipeError) and _output_closed():
            return 0
        if (user_error := error if isinstance(error, UserError) else as_user_error(error)) is None:
            raise
        sys.stderr.write(f"{painted('error:', 'bold red', sys.stderr)} {user_error}\n")
        return 2


def _output_closed() -> bool:
    """Return whether the reader of the output has ended, as `| head` does; if so, discard the rest
    of the output."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)  # errors alone
    if closed := bool(output.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return closed


def _parser() -> argparse.ArgumentParser:
    import shtab  # not before Ctrl-C is heeded

    parser = argparse.ArgumentParser(
        prog="fedrepro", description="Reproduce four federated-learning papers."
    )
    parser.add_argument("--version", action="version", version=f"fedrepro {package_version()}")
    shtab.add_argument_to(
        parser,
        "--print-completion",
        help="print a shell's script that completes commands and options",
    )
    subparsers = parser.add_subparsers(required=True)
    for name, command, options, text in COMMANDS:
        sub = subparsers.add_parser(name, help=text, allow_abbrev=False)
        unset = dict.fromkeys(("scale", "data_mirror", "device", "executor", "cores"))
        sub.set_defaults(command=command, results=Path("results"), **unset)
        for option in options.split():
            sub.add_argument(option, **OPTIONS[option])
    return parser


def parse_seconds(text: str) -> float:
    """Return a duration such as 90s, 9m or 2h in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number with s, m or h, e.g. 9m")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def parse_part(text: str) -> tuple[int, int]:
    """Return (3, 100) for 3/100, the third of a hundred parts."""
    match = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", text)
    if not match or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(
            f"'{text}': expected a part and the number of parts, e.g. 3/100"
        )
    return int(match[1]), int(match[2])


def parse_cores(text: str) -> int:
    """Return a positive whole number."""
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"'{text}': expected a whole number, at least 1")
    return int(text)


OPTIONS: dict[str, dict[str, Any]] = {
    "targets": {
        "nargs": "*",
        "metavar": "target",
        "help": "only the runs of this figure, table, paper or experiment",
    },
    "papers": {"nargs": "*", "metavar": "paper", "help": "only this paper"},
    "paper": {"nargs": "?", "help": "show all tested claims of this paper"},
    "words": {
        "nargs": "*",
        "metavar": "METHOD | key=value",
        "help": "methods, and settings; commas and 0..4 are alternatives",
    },
    "--data": {"metavar": "NAME", "required": True, "help": "data set, e.g. digits"},
    "kind": {"choices": ("method", "model", "dataset", "paper"), "help": "what to add"},
    "name": {"help": "its name: a to z, 0 to 9 and _"},
    "target": {"help": "a figure, as `fedrepro list` names it"},
    "--params": {
        "type": Path,
        "default": commands.PARAMS,
        "help": "settings file (default: params.yaml)",
    },
    "--scale": {"help": "scale to use instead of the one in the settings file"},
    "--data-mirror": {"help": "folder or URL with the data sets' files"},
    "--device": {"help": "auto, cpu or cuda"},
    "--executor": {
        "help": "how clients are trained, e.g. sequential; replaces `executor` of the settings"
    },
    "--paper": {"help": "only this paper"},
    "--results": {
        "type": Path,
        "default": Path("results"),
        "help": "folder of the runs (default: results)",
    },
    "--cores": {
        "type": parse_cores,
        "default": commands.available_cores(),
        "help": "number of cores to use, or for which to estimate the time (default: all of this "
        "machine)",
    },
    "--budget": {"type": parse_seconds, "help": "stop cleanly after this long, e.g. 90s, 9m, 2h"},
    "--runs": {
        "type": Path,
        "help": "train the runs in this list, which `fedrepro plan --export` wrote",
    },
    "--part": {
        "type": parse_part,
        "help": "with --runs: train only this part of the list, e.g. 3/100, as one job of an array",
    },
    "--export": {
        "type": Path,
        "help": "write the unfinished runs to this file, for a machine without settings",
    },
    "--other-code": {
        "action": "store_true",
        "help": "also list finished runs of current settings that earlier code trained",
    },
    "--out": {
        "type": Path,
        "help": "file (of run: folder) to write; the default is in reports/<scale>/notebooks, of "
        "run in results/own",
    },
}
COMMON = "--params --data-mirror --results"
COMMANDS = (  # name, function, options, help
    (
        "list",
        commands.list_targets,
        f"{COMMON} --scale --device --cores",
        "list all targets with title, state and cost",
    ),
    (
        "verdicts",
        commands.verdicts,
        "paper --params --scale",
        "show the verdicts on a paper's claims, or on all main claims",
    ),
    (
        "train",
        commands.train,
        f"targets {COMMON} --scale --device --executor --budget --runs --part",
        "train what is not finished",
    ),
    (
        "run",
        commands.run,
        "words --data --data-mirror --results --device --executor --out",
        "train methods on settings given here, and compare",
    ),
    (
        "plan",
        commands.plan,
        f"targets {COMMON} --scale --device --cores --export",
        "show unfinished runs and their cost",
    ),
    (
        "tune",
        commands.tune,
        "papers --scale --data-mirror --device --cores",
        "choose the values of tuned series by trials",
    ),
    (
        "keep",
        commands.keep,
        f"targets {COMMON} --scale",
        "copy finished runs to results/kept, to be committed",
    ),
    (
        "store",
        commands.store,
        "--params --paper --results",
        "copy finished runs to results/stored, which DVC tracks",
    ),
    (
        "restore",
        commands.restore,
        "--params --paper --results",
        "copy runs from results/stored to results/runs",
    ),
    (
        "prune",
        commands.prune,
        f"{COMMON} --other-code",
        "list runs and partitions that no scale uses any more",
    ),
    (
        "notebook",
        commands.notebook,
        "target --params --scale --out",
        "write a notebook that works on a figure's numbers",
    ),
    (
        "new",
        commands.new,
        "kind name",
        "write the files of a new method, model, data set or paper, to be changed",
    ),
    ("docs", commands.docs, "", "write docs/configuration.md and the schemas of the settings"),
)
