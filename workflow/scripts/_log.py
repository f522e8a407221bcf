"""What every script does around its one call: messages go to the rule's log, a failure too; the terminal says which log."""

import contextlib
import logging
import sys

from fedrepro.core.errors import UserError, explained, interrupted, stoppable


@contextlib.contextmanager
def failures_logged(snakemake):
    """Logs at level INFO into the rule's log file. What goes wrong ends the script with exit code 1 and is its last message: a
    crash with its traceback, a user's mistake without."""
    file = {"filename": snakemake.log[0], "filemode": "w", "encoding": "utf-8"}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True, **file)
    stoppable()
    try:
        yield
    except (Exception, KeyboardInterrupt) as caught:
        error = explained(caught) or caught
        if interrupted(caught):
            error = UserError("stopped; the same command goes on from the last checkpoint")
        logging.getLogger("fedrepro").error("error: %s", error, exc_info=not isinstance(error, UserError))
        sys.exit(1)
