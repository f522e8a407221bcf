"""What all campaigns do: draw numbered cases, try each, count what became of them; and a command of
fedrepro in a process of its own, which costs no start since it is forked."""

import argparse
import contextlib
import importlib
import io
import json
import logging
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fedrepro.cli import main
from fedrepro.core.errors import UserError
from support.experiments import without_times
from support.settings import write

MEMORY = 24 << 30  # bytes of addresses that a command may ask for
FREE = ("log.txt", "begun.json", "operations.json")  # of a run: these may differ between two


class Failed(Exception):
    """What a case should not have done."""


class Ended(NamedTuple):
    """A command that is over: its exit code (negative: the signal) and all that it printed."""

    code: int
    text: str

    @property
    def messages(self) -> list[str]:
        return [
            line for line in self.text.splitlines() if re.match("(fedrepro[a-z ]*: )?error: ", line)
        ]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def warm(folder: Path) -> None:
    """Begin to train here, so that a forked command has little left to import. (After a first
    backward pass torch refuses others in forked processes.)"""
    write(folder, {})
    with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()):
        main.main(["train", "--budget", "0s"])
    importlib.import_module("torch._dynamo")


def apart(folder: Path, output: Path, work: Callable[[], int]) -> int:
    """Do what the command line does, or other `work`, in `folder`, as a process group of its own;
    its id."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as in a process that has just begun
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.chdir(folder)
        code = work()
    except SystemExit as end:
        code = end.code
    except UserError as error:
        say(f"error: {error}")
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def waited(child: int, seconds: float) -> int | None:
    """The exit code of a process, or None where it is not over in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        over, status = os.waitpid(child, os.WNOHANG)
        if over:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def command(folder: Path, *arguments: str) -> Ended:
    """`fedrepro` in `folder`, to its end."""
    return ended(folder, lambda: main.main(list(arguments)))


def ended(folder: Path, work: Callable[[], int], seconds: float = 300) -> Ended:
    """The same of any work."""
    with tempfile.NamedTemporaryFile() as output:
        child = apart(folder, Path(output.name), work)
        code = waited(child, seconds)
        if code is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        text = Path(output.name).read_text(encoding="utf-8", errors="replace")
    if code is None:
        raise Failed(f"did not end in {seconds:g} seconds:\n{text[-2000:]}")
    return Ended(code, text)


def one_message(ended: Ended) -> str:
    """The message of a command that refused; Failed where there is none, more than one, or a
    traceback."""
    if "Traceback" in ended.text or ended.code not in (1, 2):
        raise Failed(f"exit code {ended.code}:\n{ended.text[-3000:]}")
    if len(ended.messages) != 1:
        raise Failed(f"{len(ended.messages)} messages:\n{ended.text[-3000:]}")
    return ended.messages[0]


def contents(*folders: Path) -> dict[str, bytes]:
    """What has to be the same however often a job was killed: file -> bytes. Locks and Snakemake's
    own are not looked at."""
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and path.name not in FREE and not path.name.endswith(".lock"):
                record = (
                    json.dumps(without_times(path.parent)).encode()
                    if path.name == "record.json"
                    else path.read_bytes()
                )
                found[f"{folder.name}/{path.relative_to(folder)}"] = record
    return found


def different(whole: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    """The names that only one has, or whose bytes differ."""
    return sorted(
        name for name in whole.keys() | found.keys() if whole.get(name) != found.get(name)
    )


Case = Callable[[int, random.Random], str]


def parse_options(name: str, count: int, **switches: str) -> argparse.Namespace:
    """Parse the command line of a campaign; `switches` maps further flags to their help."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.campaigns.{name}")
    parser.add_argument("--seed", type=int, default=0, help="of all draws (0)")
    parser.add_argument("--count", type=int, default=count, help=f"how many cases ({count})")
    parser.add_argument("--only", type=int, help="this case alone, by its number")
    for switch, text in switches.items():
        parser.add_argument(f"--{switch}", action="store_true", help=text)
    return parser.parse_args()


def run_campaign(name: str, campaign: Callable[[], Case], options: argparse.Namespace) -> int:
    """Draw and run the requested cases. Returns the exit code: 1 if a case failed.

    `campaign` prepares the cases; a case returns its outcome in a few words, or raises."""
    with tempfile.TemporaryDirectory() as folder:
        warm(Path(folder))
    logging.getLogger().handlers.clear()
    case = campaign()
    numbers = range(options.count) if options.only is None else [options.only]
    outcomes, failed, began = Counter(), 0, time.monotonic()
    for number in numbers:
        try:
            outcomes[case(number, random.Random(f"{name} {options.seed} {number}"))] += 1
        except Exception as error:
            failed += 1
            message = str(error) if isinstance(error, Failed) else traceback.format_exc()
            again = f"python -m tests.campaigns.{name} --seed {options.seed} --only {number}"
            say(f"case {number} FAILED: {message}\n  again: {again}")
    figures = ", ".join(f"{many} {what}" for what, many in sorted(outcomes.items())) or "none held"
    lasted = time.monotonic() - began
    say(
        f"{name}, seed {options.seed}: {len(numbers)} cases in {lasted:.0f} s: {figures}; "
        f"{failed} failed"
    )
    return 1 if failed else 0
