"""A bar with rounds, time left and accuracy on a terminal; elsewhere the log's lines say the same."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

SHOWN_AS_BAR = {"shown_as_bar": True}  # marks the log records that a bar replaces


@contextlib.contextmanager
def bar(rounds: int, done: int) -> Iterator[Callable[[float | None], None]]:
    """A function to call after each round with the test accuracy; it does nothing where there is no terminal or no tqdm."""
    try:
        from tqdm import tqdm  # not part of the training core
    except ModuleNotFoundError:
        yield lambda accuracy: None
        return
    with tqdm(total=rounds, initial=done, unit="round", disable=None, file=sys.stderr, leave=False) as shown:

        def advance(accuracy: float | None) -> None:
            if accuracy is not None:
                shown.set_postfix_str(f"accuracy {100 * accuracy:.2f} %", refresh=False)
            shown.update()

        yield advance


def quiet_rounds(handler: logging.Handler) -> None:
    """Keep from a terminal's log what a bar shows."""
    if sys.stderr.isatty():
        handler.addFilter(lambda record: not getattr(record, "shown_as_bar", False))
