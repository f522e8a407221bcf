"""Progress of a run: a bar on a terminal, and a small file for other processes."""

import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator

from fedrepro.core.files import temporary_path
from fedrepro.core.metrics import MEASURES
from fedrepro.runs.run import Row, Run

SHOWN_AS_BAR = {"shown_as_bar": True}  # marks the log records that a bar replaces
WRITE_SECONDS = 1.0  # between two writes of the file; a round may take milliseconds


@contextlib.contextmanager
def report_progress(run: Run, rows: list[Row]) -> Iterator[Callable[[], None]]:
    """Report the progress of a run whose rounds so far are `rows`: yields a function to call after
    each new row."""
    measure, written = run.config.measures[0], 0.0

    def write() -> None:
        nonlocal written
        value = next((row[measure] for row in reversed(rows) if row[measure] is not None), None)
        reached = {
            "round": rows[-1]["round"],
            "rounds": run.config.rounds,
            "measure": measure,
            "value": value,
        }
        temporary = temporary_path(run.progress)
        temporary.write_text(json.dumps(reached) + "\n", encoding="utf-8")
        temporary.replace(run.progress)  # without fsync, which may take longer than a round
        written = time.monotonic()

    write()
    with _bar(run.config.rounds, rows[-1]["round"], measure) as advance:

        def report() -> None:
            advance(rows[-1][measure])
            if time.monotonic() - written >= WRITE_SECONDS:
                write()

        yield report


@contextlib.contextmanager
def _bar(rounds: int, done: int, name: str) -> Iterator[Callable[[float | None], None]]:
    """Yield a function to call after each round with the value of the measure `name`; it does
    nothing without a terminal or tqdm."""
    try:
        from tqdm import tqdm  # not part of the training core
    except ModuleNotFoundError:
        yield lambda value: None
        return
    with tqdm(
        total=rounds, initial=done, unit="round", disable=None, file=sys.stderr, leave=False
    ) as bar:
        measure = MEASURES[name]

        def advance(value: float | None) -> None:
            if value is not None:
                text = f"{100 * value:.2f} %" if measure.percent else f"{value:.4f}"
                bar.set_postfix_str(f"{measure.title} {text}", refresh=False)
            bar.update()

        yield advance


def quiet_rounds(handler: logging.Handler) -> None:
    """Hide log records that a bar replaces from a terminal."""
    if sys.stderr.isatty():
        handler.addFilter(lambda record: not getattr(record, "shown_as_bar", False))
