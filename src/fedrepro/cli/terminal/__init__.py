"""Terminal output while Snakemake works: the cost of the requested work, a line of progress,
failures, a closing message."""

import atexit
import contextlib
import os
from enum import StrEnum
from typing import TextIO

from fedrepro.core.errors import on_signals, stops


class Event(StrEnum):
    """Events in Snakemake's log in addition to its own `LogEvent`."""

    COST = "fedrepro_cost"
    END = "fedrepro_end"


def exit_on_signals() -> None:
    """Let Ctrl-C, SIGTERM and a closed terminal end this process and its jobs, which then store
    checkpoints."""
    import psutil  # of Snakemake

    def stop() -> None:
        for job in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                job.terminate()
        if len(stops) == 1:
            atexit.register(os._exit, 130)  # instead of seconds in which modules are taken down
            raise SystemExit

    on_signals(stop)


def painted(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style such as "bold red" if the stream is a terminal with colours, which
    NO_COLOR turns off, and rich is installed, which training does not need."""
    try:
        from rich.color import ColorSystem
        from rich.console import Console
        from rich.style import Style
    except ModuleNotFoundError:
        return text

    console = Console(file=stream)
    if not console.is_terminal or console.no_color or console.color_system is None:
        return text
    return "\n".join(
        Style.parse(style).render(line, color_system=ColorSystem.STANDARD)
        for line in text.split("\n")
    )
