"""Errors that a user can fix, and the collection of several failures in one job."""

import contextlib
import difflib
import errno
import logging
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
log = logging.getLogger(__name__)
MAX_LINES, MAX_LETTERS = 20, 2000  # of a message, of a line of it
# for a terminal, and of directions
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class UserError(Exception):
    """An error that the user can fix: the command line prints its message and exits with code 2.

    Secrets are masked, control letters escaped, and a long message is cut: a file from elsewhere
    may have written any of it.
    """

    def __init__(self, message: str) -> None:
        lines = masked(message).split("\n")
        if len(lines) > MAX_LINES:
            lines[MAX_LINES - 1 :] = [f"and {len(lines) - MAX_LINES + 1} more"]
        lines = [
            line if len(line) <= MAX_LETTERS else f"{line[:MAX_LETTERS]} ..." for line in lines
        ]
        super().__init__(
            "\n".join(CONTROL.sub(lambda match: repr(match[0])[1:-1], line) for line in lines)
        )


def for_each(items: Iterable[Item], act: Callable[[Item], Result]) -> list[Result]:
    """Return what `act` returns for each item. Raises one UserError with the messages of all items
    for which it raises one."""
    results: list[Result] = []
    errors: dict[str, UserError] = {}  # message -> its first error
    for item in items:
        try:
            results.append(act(item))
        except UserError as error:
            errors.setdefault(str(error), error)
    if len(errors) > 1:
        raise UserError("\n".join(errors))
    for error in errors.values():
        raise error
    return results


@contextlib.contextmanager
def error_prefix(where: str) -> Iterator[None]:
    """Prefix the message of a UserError that the block raises with `<where>: `."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"{where}: {error}") from None


@contextlib.contextmanager
def user_code(where: str) -> Iterator[None]:
    """Raise any exception of the block, which runs code that the user wrote, as a UserError
    `<where>: <exception>`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}") from error


def masked(text: str) -> str:
    """Replace secrets in URLs by ***: user and password, which may themselves contain @ and /, and
    the query after a `?`."""
    text = re.sub(r"\S+", lambda word: _without_user(word[0]), text)
    for start in (r"\w:/", "url: "):
        url = rf"(?<={start})(/[^\s?'\"]*)(\?[^\s'\")]+)?"
        text = re.sub(url, lambda match: match[1] + ("?***" if match[2] else ""), text)
    return text


def _without_user(word: str) -> str:
    """Mask user and password in a word, in linear time, unlike one regular expression: a word may
    have a million letters."""
    end = word.rfind("@")
    start = re.search(r"\w://", word[: max(end, 0)])
    return f"{word[: start.end()]}***{word[end:]}" if start else word


UNMAPPED = "failed to map segment"  # the loader's message if a library does not fit into memory
CONTINUED = "finished work is kept, and the same command continues"
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), f"free some space: {CONTINUED}"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), f"make it writable: {CONTINUED}"),
    **dict.fromkeys(
        (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
        "choose another path, or move away what is in its place",
    ),
}


def as_user_error(error: BaseException) -> UserError | None:
    """Return a UserError for a failure of the machine: full memory or disk, missing permission,
    unusable path; else None."""
    if isinstance(error, MemoryError) or (
        isinstance(error, ImportError) and UNMAPPED in str(error)
    ):
        return UserError(
            f"memory is full ({error or 'allocation failed'}): use a smaller scale or fewer "
            f"cores; {CONTINUED}"
        )
    if isinstance(error, OSError) and error.errno is not None and error.errno in REMEDIES:
        return UserError(
            f"{error.filename or 'a file'}: {os.strerror(error.errno)}; {REMEDIES[error.errno]}"
        )
    return None


STOPPED = "stopped; the same command continues from the last checkpoint"
# within this time it is the same signal again, sent by the terminal and by a parent such as uv
REPEAT_SECONDS = 1.0
stops: list[float] = []  # times of the signals that asked this process to stop


def on_signals(act: Callable[[], object]) -> None:
    """Call `act` at Ctrl-C, SIGTERM and when the terminal closes; signals that are ignored, as
    under nohup, stay ignored."""

    def heed(*_: object) -> None:
        stops.append(time.monotonic())
        act()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(number) is not signal.SIG_IGN
        ):
            signal.signal(number, heed)


def stop_on_signals() -> None:
    """Make these signals raise KeyboardInterrupt, so that the work stops at a checkpoint; later
    ones end the process."""

    def stop() -> None:
        if len(stops) == 1:
            raise KeyboardInterrupt
        if stops[-1] - stops[0] > REPEAT_SECONDS:
            try:
                os.write(2, f"{STOPPED}\n".encode())
            finally:
                os._exit(130)

    on_signals(stop)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C or follows from it.

    In Python 3.11 an interrupt during the definition of a class, as in an import, is a
    RuntimeError; the import of torch fails otherwise; and clean-up may fail too.
    """
    return error is not None and (
        bool(stops)
        or isinstance(error, KeyboardInterrupt)
        or is_interrupt(error.__cause__)
        or is_interrupt(error.__context__)
    )


class DataUnavailable(UserError):
    """Missing data that only the user may fetch; a plan leaves out the experiments that need them,
    with this reason."""


MAX_LISTED = 8  # a message lists all valid names up to this number
NEAREST = 4  # and this many of more


def unknown_name(kind: str, name: str, valid: Collection[str], more: str = "") -> UserError:
    """Return the error for an unknown name. It lists all valid names if they are few, else the
    nearest and then `more`."""
    if len(valid) <= MAX_LISTED:
        return UserError(unknown_name_message(kind, name, valid))
    return UserError(
        f"unknown {kind} '{name}': nearest are {', '.join(nearest(name, valid))}{more}"
    )


def unknown_name_message(kind: str, name: str | None, valid: Collection[str]) -> str:
    """Return the message for an unknown or missing name, with all valid ones."""
    problem = f"no {kind} is named" if name is None else f"unknown {kind} '{name}'"
    return (
        f"{problem}: choose from {', '.join(valid)}" if valid else f"{problem}: there is no {kind}"
    )


def nearest(name: str, valid: Collection[str]) -> list[str]:
    """Return the valid names most similar to `name`, the best first."""
    lower = {key.lower(): key for key in valid}
    containing = [key for low, key in lower.items() if name.lower() in low]
    # first <paper>_<name>
    containing.sort(key=lambda key: (not key.lower().endswith(f"_{name.lower()}"), len(key)))
    similar = [
        lower[key] for key in difflib.get_close_matches(name.lower(), lower, NEAREST, cutoff=0)
    ]
    return list(dict.fromkeys(containing + similar))[:NEAREST]


class Failures:
    """Failures of independent pieces of work by name: each piece is tried, and the failures are
    raised together at the end.

    The log names each at once, with a traceback if it is a crash; the error at the end tells why.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Exception] = {}

    @contextlib.contextmanager
    def collect(self, name: str) -> Iterator[None]:
        """Run the block for the piece of work `name`; log that it failed, and collect its
        failure."""
        try:
            yield
        except Exception as caught:
            if is_interrupt(caught):
                raise KeyboardInterrupt from caught
            error = as_user_error(caught) or caught
            crash = not isinstance(error, UserError)
            log.error(
                "%s failed%s",
                name,
                f": {type(error).__name__}: {error}" if crash else "",
                exc_info=crash,
            )
            if crash:
                # it would keep all tensors of the run alive
                traceback.clear_frames(error.__traceback__)
            self.by_name[name] = error if crash else error.with_traceback(None)

    def raise_all(self) -> None:
        """Raise the failures, if any: one UserError if all are UserErrors, else the single crash or
        a group of all."""
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
    collected = Failures() if failures is None else failures
    yield collected
    if failures is None:
        collected.raise_all()
