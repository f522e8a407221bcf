"""What every script does around its one call: messages go to the rule's log, a user's mistake ends it without a traceback."""

import contextlib
import logging
import sys

from fedrepro.errors import UserError


@contextlib.contextmanager
def user_errors(snakemake):
    """Logs at level INFO into the rule's log file; a UserError is one message there and on the terminal."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", filename=snakemake.log[0], filemode="w", force=True
    )
    try:
        yield
    except UserError as error:
        logging.getLogger("fedrepro").error("error: %s", error)
        sys.exit(f"error: {error}")
