"""The command line `fedrepro`."""

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
from fedrepro.core.errors import UserError, as_user_error, is_interrupt, stop_on_sigterm


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0; 2 for the user's mistakes, with one message; 3 when a time budget ended the work."""
    try:
        stop_on_sigterm()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # titles have letters that not every terminal has
        options = _parser().parse_args(arguments)
        from fedrepro.training import progress_bar  # slow to import

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
        if is_interrupt(error):
            sys.stderr.write("stopped; the same command goes on from the last checkpoint\n")
            return 130
        if isinstance(error, BrokenPipeError) and _output_closed():
            return 0
        if (told := as_user_error(error)) is None:
            raise
        sys.stderr.write(f"error: {told}\n")
        return 2


def _output_closed() -> bool:
    """Return whether nobody reads the output, as after `| head`; the rest of it then goes nowhere."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fedrepro", description="Reproduce four federated-learning papers.")
    parser.add_argument("--version", action="version", version=f"fedrepro {__version__}")
    subparsers = parser.add_subparsers(required=True)
    for name, command, options, text in COMMANDS:
        sub = subparsers.add_parser(name, help=text, allow_abbrev=False)
        sub.set_defaults(command=command, scale=None, data_mirror=None, device=None, cores=None, results=Path("results"))
        for option in options.split():
            sub.add_argument(option, **OPTIONS[option])
    return parser


def parse_seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number with s, m or h, e.g. 9m")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def parse_cores(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"'{text}': expected a whole number, at least 1")
    return int(text)


OPTIONS: dict[str, dict[str, Any]] = {
    "targets": {"nargs": "*", "metavar": "target", "help": "only what this figure, table, paper or experiment needs"},
    "target": {"help": "a figure, as `fedrepro list` names it"},
    "of": {
        **{"nargs": "?", "choices": ("settings", "experiments", "artifacts"), "default": "settings"},
        "help": "settings: params.yaml (the default); else of a paper's experiments.yaml or artifacts.yaml",
    },
    "--params": {"type": Path, "default": commands.PARAMS, "help": "settings file (params.yaml)"},
    "--scale": {"help": "overrides the scale of the settings file"},
    "--data-mirror": {"help": "folder or URL with the data sets' files"},
    "--device": {"help": "auto, cpu or cuda"},
    "--paper": {"help": "only this paper"},
    "--results": {"type": Path, "default": Path("results"), "help": "where runs lie (results)"},
    "--cores": {
        "type": parse_cores,
        "default": commands.available_cores(),
        "help": "for which the time is told (all of this machine)",
    },
    "--budget": {"type": parse_seconds, "help": "stop cleanly after this long, e.g. 90s, 9m, 2h"},
    "--runs": {"type": Path, "help": "a list of runs that `fedrepro plan --export` wrote, instead of settings"},
    "--export": {"type": Path, "help": "write the unfinished runs to this file, for a machine without settings"},
    "--yes": {"action": "store_true", "help": "delete; without it the folders are only listed"},
    "--other-code": {"action": "store_true", "help": "also finished runs whose settings are named, but of earlier code"},
    "--out": {"type": Path, "help": "file (reports/<scale>/notebooks/<paper>_<figure>.ipynb)"},
}
LOCATION_OPTIONS = "--params --data-mirror --results"
COMMANDS = (  # name, function, its options, what it does
    (
        "list",
        commands.list_targets,
        f"{LOCATION_OPTIONS} --scale --device --cores",
        "every target with its title, its state and its cost",
    ),
    ("train", commands.train, f"targets {LOCATION_OPTIONS} --scale --device --budget --runs", "train what is not finished"),
    (
        "plan",
        commands.plan,
        f"targets {LOCATION_OPTIONS} --scale --device --cores --export",
        "what would run, and what it costs",
    ),
    ("keep", commands.keep, f"targets {LOCATION_OPTIONS} --scale", "copy finished runs to results/kept, to be committed"),
    ("store", commands.store, "--params --paper --results", "copy finished runs to results/stored, which is DVC's"),
    ("restore", commands.restore, "--params --paper --results", "copy runs that DVC brought to results/runs"),
    (
        "prune",
        commands.prune,
        f"{LOCATION_OPTIONS} --yes --other-code",
        "delete runs and partitions that no scale names any more",
    ),
    ("notebook", commands.notebook, "target --params --scale --out", "write a notebook that goes on from a figure's numbers"),
    ("docs", commands.docs, "", "write docs/configuration.md from the descriptions of the settings"),
    ("schema", commands.schema, "of", "print the JSON schema of the settings, or of a file of a paper"),
)
