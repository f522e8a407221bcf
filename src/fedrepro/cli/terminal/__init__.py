"""What Snakemake's user sees on the terminal: the cost of what is asked, a line of progress, what failed and why, the end."""

from enum import StrEnum


class Event(StrEnum):
    """Events of our own in Snakemake's log, beside its `LogEvent`."""

    COST = "fedrepro_cost"
    END = "fedrepro_end"
