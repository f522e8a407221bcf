"""The one exception that a user is meant to read, and what becomes of several in one job."""

import contextlib
import logging
from collections.abc import Iterator

log = logging.getLogger(__name__)


class UserError(Exception):
    """Something the user can mend: the command line prints its message without a traceback and exits with code 2.

    The message names the key and the file, and lists the valid values.
    """


class Failures:
    """What went wrong in a list of independent pieces of work: each is tried, and the failures are told at the end."""

    def __init__(self) -> None:
        self.found: dict[str, Exception] = {}

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Do the piece `name`; if it fails, that is logged and the block ends."""
        try:
            yield
        except Exception as error:
            log.error("%s failed: %s", name, error, exc_info=not isinstance(error, UserError))
            self.found[name] = error

    def tell(self) -> None:
        """Raises what was found, if anything: a `UserError` if all are, else the one crash or a group of all."""
        if not self.found:
            return
        if all(isinstance(error, UserError) for error in self.found.values()):
            raise UserError("\n".join(f"{name}: {error}" for name, error in self.found.items()))
        failed = f"failed: {', '.join(self.found)}"
        if len(self.found) > 1:
            raise ExceptionGroup(failed, list(self.found.values()))
        (crash,) = self.found.values()
        crash.add_note(failed)
        raise crash
