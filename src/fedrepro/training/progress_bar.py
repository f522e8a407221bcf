"""A bar with rounds, time left and the first measure on a terminal; elsewhere the log's lines say the same."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

from fedrepro.core.metrics import MEASURES

SHOWN_AS_BAR = {"shown_as_bar": True}  # marks the log records that a bar replaces


@contextlib.contextmanager
def bar(rounds: int, done: int, name: str) -> Iterator[Callable[[float | None], None]]:
    """A function to call after each round with the value of the measure `name`; it does nothing where there is no terminal or
    no tqdm."""
    try:
        from tqdm import tqdm  # not part of the training core
    except ModuleNotFoundError:
        yield lambda value: None
        return
    with tqdm(total=rounds, initial=done, unit="round", disable=None, file=sys.stderr, leave=False) as shown:
        measure = MEASURES[name]

        def advance(value: float | None) -> None:
            if value is not None:
                told = f"{100 * value:.2f} %" if measure.percent else f"{value:.4f}"
                shown.set_postfix_str(f"{measure.title} {told}", refresh=False)
            shown.update()

        yield advance


def quiet_rounds(handler: logging.Handler) -> None:
    """Keep from a terminal's log what a bar shows."""
    if sys.stderr.isatty():
        handler.addFilter(lambda record: not getattr(record, "shown_as_bar", False))
