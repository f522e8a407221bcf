"""Terminal output while Snakemake works: the cost of the requested work, a line of progress, failures, a closing message."""

from enum import StrEnum
from typing import TextIO


class Event(StrEnum):
    """Events in Snakemake's log in addition to its own `LogEvent`."""

    COST = "fedrepro_cost"
    END = "fedrepro_end"


def painted(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style such as "bold red" if the stream is a terminal with colours, which NO_COLOR turns off, and rich
    is installed, which training does not need."""
    try:
        from rich.color import ColorSystem
        from rich.console import Console
        from rich.style import Style
    except ModuleNotFoundError:
        return text

    console = Console(file=stream)
    if not console.is_terminal or console.no_color or console.color_system is None:
        return text
    return "\n".join(Style.parse(style).render(line, color_system=ColorSystem.STANDARD) for line in text.split("\n"))
