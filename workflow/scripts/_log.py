"""What every script does around its one call: messages go to the rule's log, a failure too; the terminal says which log."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from fedrepro.cli.terminal import failures as failure
from fedrepro.core.errors import Failures, UserError, as_user_error, is_interrupt, stop_on_sigterm


@contextlib.contextmanager
def failures_logged(snakemake) -> Iterator[Failures]:
    """Logs at level INFO into the rule's log file. What goes wrong ends the script with exit code 1 and is its last message: a
    crash with its traceback, a user's mistake without; beside the log it is written as data. Yields what takes the failures of
    several pieces of work."""
    log, failures = Path(snakemake.log[0]), Failures()
    failure.failures_file(log).unlink(missing_ok=True)
    file = {"filename": log, "filemode": "w", "encoding": "utf-8"}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True, **file)
    stop_on_sigterm()
    try:
        yield failures
        failures.raise_all()
    except (Exception, KeyboardInterrupt) as caught:
        error = as_user_error(caught) or caught
        if is_interrupt(caught):
            error = UserError("stopped; the same command continues from the last checkpoint")
        logging.getLogger("fedrepro").error("error: %s", error, exc_info=not isinstance(error, UserError))
        failure.write(log, failures.by_name or {snakemake.rule: error})
        sys.exit(1)
