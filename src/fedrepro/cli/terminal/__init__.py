"""Terminal output while Snakemake works: the cost of the requested work, a line of progress, failures, a closing message."""

from enum import StrEnum


class Event(StrEnum):
    """Events in Snakemake's log in addition to its own `LogEvent`."""

    COST = "fedrepro_cost"
    END = "fedrepro_end"
