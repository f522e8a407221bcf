"""Logging of scripts: all that they print goes to the rule's log file, whose name the terminal
shows after a failure."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from fedrepro.cli.terminal import failures as failures_of_jobs
from fedrepro.core.errors import (
    STOPPED,
    Failures,
    UserError,
    as_user_error,
    is_interrupt,
    stop_on_signals,
)


@contextlib.contextmanager
def failures_logged(snakemake) -> Iterator[Failures]:
    """Write all output to the rule's log file, and yield a collection for failures of independent
    pieces of work.

    An error is logged last, with a traceback unless it is a UserError, and written as JSON next to
    the log. The script then exits with code 1.
    """
    log, failures = Path(snakemake.log[0]), Failures()
    failures_of_jobs.failures_file(log).unlink(missing_ok=True)
    file = log.open("w", encoding="utf-8")
    for stream in (1, 2):  # also of libraries and workers: the terminal is that of Snakemake
        os.dup2(file.fileno(), stream)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", force=True, stream=file
    )
    stop_on_signals()
    try:
        yield failures
        failures.raise_all()
    except (Exception, KeyboardInterrupt) as caught:
        error = as_user_error(caught) or caught
        if is_interrupt(caught):
            error = UserError(STOPPED)
        logging.getLogger("fedrepro").error(
            "error: %s", error, exc_info=not isinstance(error, UserError)
        )
        failures_of_jobs.write(log, failures.by_name or {snakemake.rule: error})
        sys.exit(1)
