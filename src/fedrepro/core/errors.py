"""The one exception that a user is meant to read, and what becomes of several in one job."""

import contextlib
import difflib
import errno
import logging
import os
import re
import signal
import threading
import traceback
from collections.abc import Collection, Iterator

log = logging.getLogger(__name__)


class UserError(Exception):
    """Something the user can mend: the command line prints its message without a traceback and exits with code 2.

    The message names the key and the file, and lists the valid values. Secrets in URLs are masked.
    """

    def __init__(self, message: str) -> None:
        super().__init__(masked(message))


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Say where a UserError of the block happened: `where` comes before its message."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def masked(text: str) -> str:
    """With what may be secret in URLs as ***: user and password, which may hold @ and / themselves, and what follows a ?."""
    text = re.sub(r"\S+", lambda word: _without_user(word[0]), text)
    for start in (r"\w:/", "url: "):
        url = rf"(?<={start})(/[^\s?'\"]*)(\?[^\s'\")]+)?"
        text = re.sub(url, lambda found: found[1] + ("?***" if found[2] else ""), text)
    return text


def _without_user(word: str) -> str:
    """In time that grows with the length alone, unlike one expression: a key of a million letters may be shown."""
    end = word.rfind("@")
    start = re.search(r"\w://", word[: max(end, 0)])
    return f"{word[: start.end()]}***{word[end:]}" if start else word


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNMAPPED = "failed to map segment"  # the loader's words where a library does not fit into memory
CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)
WRONG = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG)  # a path that leads nowhere
GOES_ON = "what is finished stays, and the same command goes on"


def explained(error: BaseException) -> UserError | None:
    """What is to be said of a failure that no code is to blame for: a full disk, a closed folder, a path that
    leads nowhere, no memory; else None."""
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and UNMAPPED in str(error)):
        return UserError(f"memory is full ({error or 'no more could be had'}): use a smaller scale or fewer cores; {GOES_ON}")
    if not isinstance(error, OSError) or error.errno not in (*FULL, *CLOSED, *WRONG):
        return None
    reason, where = os.strerror(error.errno), error.filename or "a file's disk"
    if error.errno in WRONG:
        return UserError(f"{where}: {reason}; choose another path, or move away what is in its place")
    what = "free some space" if error.errno in FULL else "make it writable"
    return UserError(f"{where}: {reason}; {what}: {GOES_ON}")


def stoppable() -> None:
    """SIGTERM ends the work as Ctrl-C does: at a checkpoint."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt("terminated")

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def interrupted(error: BaseException | None) -> bool:
    """Whether it stands for Ctrl-C, or came of it: in Python 3.11 what breaks off the making of a class, as imports do, is a
    RuntimeError, and what ends the work on the way out may fail in its turn."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or interrupted(error.__cause__) or interrupted(error.__context__)
    )


class Unavailable(UserError):
    """Data that are not here and that nobody may fetch for the user; the message says how to get them.

    What needs them is left out of a plan and shown with this reason.
    """


FEW = 8  # names that are all told
NEAREST = 4  # of more, so many


def unknown(kind: str, name: str, valid: Collection[str], more: str = "") -> UserError:
    """What answers a name that does not exist: all names where there are few, else the nearest; `more` says where all stand."""
    if len(valid) <= FEW:
        return UserError(not_among(kind, name, valid))
    return UserError(f"unknown {kind} '{name}': nearest are {', '.join(nearest(name, valid))}{more}")


def not_among(kind: str, name: str, valid: Collection[str]) -> str:
    """What is said of a name that does not exist, with all names that do."""
    return f"unknown {kind} '{name}': choose from {', '.join(valid) or 'nothing'}"


def nearest(name: str, valid: Collection[str]) -> list[str]:
    """The names most like it, the most like first."""
    lower = {key.lower(): key for key in valid}
    within = [key for low, key in lower.items() if name.lower() in low]
    within.sort(key=lambda key: (not key.lower().endswith(f"_{name.lower()}"), len(key)))  # the same of some paper first
    alike = [lower[key] for key in difflib.get_close_matches(name.lower(), lower, NEAREST, cutoff=0)]
    return list(dict.fromkeys(within + alike))[:NEAREST]


class Failures:
    """What went wrong in a list of independent pieces of work: each is tried, and the failures are told at the end."""

    def __init__(self) -> None:
        self.found: dict[str, Exception] = {}

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Do the piece `name`; if it fails, that is logged and the block ends."""
        try:
            yield
        except Exception as caught:
            if interrupted(caught):
                raise KeyboardInterrupt from caught
            error = explained(caught) or caught
            crash = not isinstance(error, UserError)
            log.error("%s failed: %s%s", name, f"{type(error).__name__}: " if crash else "", error, exc_info=crash)
            if crash:
                traceback.clear_frames(error.__traceback__)  # which would keep all tensors of the run
            self.found[name] = error if crash else error.with_traceback(None)

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


@contextlib.contextmanager
def collected(failures: Failures | None) -> Iterator[Failures]:
    """Where the failures of a list of work go: to the caller's, if there are such; else what fails is raised at the end."""
    found = Failures() if failures is None else failures
    yield found
    if failures is None:
        found.tell()
