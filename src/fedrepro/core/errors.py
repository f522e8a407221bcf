"""Errors that a user can mend, and what becomes of several in one job."""

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
    """An error that the user can mend: the command line prints its message, secrets masked, and exits with code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(masked(message))


@contextlib.contextmanager
def error_prefix(where: str) -> Iterator[None]:
    """Prefix the message of a UserError in the block with where it happened."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def masked(text: str) -> str:
    """Replace secrets in URLs by ***: user and password, which may hold @ and / themselves, and what follows a ?."""
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


UNMAPPED = "failed to map segment"  # the loader's words where a library does not fit into memory
CONTINUED = "what is finished stays, and the same command goes on"
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), f"free some space: {CONTINUED}"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), f"make it writable: {CONTINUED}"),
    **dict.fromkeys(
        (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
        "choose another path, or move away what is in its place",
    ),
}


def as_user_error(error: BaseException) -> UserError | None:
    """Turn a failure that no code is to blame for into a UserError: no memory, a full disk, a closed folder, a path that leads
    nowhere. None for any other."""
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and UNMAPPED in str(error)):
        return UserError(f"memory is full ({error or 'no more could be had'}): use a smaller scale or fewer cores; {CONTINUED}")
    remedy = REMEDIES.get(error.errno) if isinstance(error, OSError) else None
    return UserError(f"{error.filename or 'a file'}: {os.strerror(error.errno)}; {remedy}") if remedy else None


def stop_on_sigterm() -> None:
    """Let SIGTERM end the work as Ctrl-C does: at a checkpoint."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt("terminated")

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C or came of it: what interrupts the definition of a class, as in an import, is a
    RuntimeError in Python 3.11, and clean-up may fail in its turn."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or is_interrupt(error.__cause__) or is_interrupt(error.__context__)
    )


class DataUnavailable(UserError):
    """Data that are not here and that only the user may fetch; what needs them is left out of a plan, with this reason."""


FEW = 8  # valid names that a message lists all
NEAREST = 4  # names of more


def unknown_name(kind: str, name: str, valid: Collection[str], more: str = "") -> UserError:
    """Return the error for an unknown name: it lists all names where they are few, else the nearest, and `more`."""
    if len(valid) <= FEW:
        return UserError(unknown_name_message(kind, name, valid))
    return UserError(f"unknown {kind} '{name}': nearest are {', '.join(nearest(name, valid))}{more}")


def unknown_name_message(kind: str, name: str, valid: Collection[str]) -> str:
    """Return the message for an unknown name, with all valid ones."""
    return f"unknown {kind} '{name}': choose from {', '.join(valid) or 'nothing'}"


def nearest(name: str, valid: Collection[str]) -> list[str]:
    """Return the valid names that are most like one, the best first."""
    lower = {key.lower(): key for key in valid}
    within = [key for low, key in lower.items() if name.lower() in low]
    within.sort(key=lambda key: (not key.lower().endswith(f"_{name.lower()}"), len(key)))  # the same of some paper first
    alike = [lower[key] for key in difflib.get_close_matches(name.lower(), lower, NEAREST, cutoff=0)]
    return list(dict.fromkeys(within + alike))[:NEAREST]


class Failures:
    """Failures of independent pieces of work: all are tried, and what failed is raised at the end."""

    def __init__(self) -> None:
        self.by_name: dict[str, Exception] = {}

    @contextlib.contextmanager
    def collect(self, name: str) -> Iterator[None]:
        """Run the block for the piece `name`; log and keep its failure."""
        try:
            yield
        except Exception as caught:
            if is_interrupt(caught):
                raise KeyboardInterrupt from caught
            error = as_user_error(caught) or caught
            crash = not isinstance(error, UserError)
            log.error("%s failed: %s%s", name, f"{type(error).__name__}: " if crash else "", error, exc_info=crash)
            if crash:
                traceback.clear_frames(error.__traceback__)  # which would keep all tensors of the run
            self.by_name[name] = error if crash else error.with_traceback(None)

    def raise_all(self) -> None:
        """Raise what failed, if anything: a UserError if all are, else the one crash or a group of all."""
        if not self.by_name:
            return
        if all(isinstance(error, UserError) for error in self.by_name.values()):
            raise UserError("\n".join(f"{name}: {error}" for name, error in self.by_name.items()))
        failed = f"failed: {', '.join(self.by_name)}"
        if len(self.by_name) > 1:
            raise ExceptionGroup(failed, list(self.by_name.values()))
        (crash,) = self.by_name.values()
        crash.add_note(failed)
        raise crash


@contextlib.contextmanager
def shared_failures(failures: Failures | None) -> Iterator[Failures]:
    """Yield the caller's failures to add to, or new ones that are raised at the end."""
    found = Failures() if failures is None else failures
    yield found
    if failures is None:
        found.raise_all()
