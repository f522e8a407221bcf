"""Filters that the Snakefile puts on Snakemake's logger: the cost of what is asked for, and what answers an unknown target."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from snakemake_interface_logger_plugins.common import LogEvent

from fedrepro.cli.terminal import Event
from fedrepro.core.errors import unknown_name
from fedrepro.experiments import cost

log = logging.getLogger("snakemake.logging")
Filter = Callable[[logging.LogRecord], bool]


def announce_cost(jobs: Mapping[str, list[cost.PendingWork]], cores: int) -> Filter:
    """Log once, as soon as it is known which jobs a command takes, what they cost; with it the line of progress gets the jobs.

    `jobs`: rule -> what is trained in it; `cores`: for which the time is told.
    """
    told = False

    def announce(record: logging.LogRecord) -> bool:
        nonlocal told
        if getattr(record, "event", None) == LogEvent.RUN_INFO and not told:
            told = True
            asked = {rule: jobs[rule] for rule in record.stats if rule in jobs}
            if entries := [entry for group in asked.values() for entry in group]:
                log.info(cost.pending_table(entries, cores), extra={"event": Event.COST, "asked": asked})
        return True

    return announce


def suggest_targets(valid: Collection[str], requested: Callable[[], Iterable[str]]) -> Filter:
    """Answer an unknown target with the nearest of those that there are; `asked` returns the targets on the command line."""

    def suggest(record: logging.LogRecord) -> bool:
        if getattr(record, "exception", None) == "MissingRuleException":
            wrong = [
                name for name in requested() if name not in valid and "/" not in name and "." not in name
            ]  # others are files
            if wrong:
                record.msg, record.args = str(unknown_name("target", wrong[0], valid, "; `fedrepro list` shows all")), None
        return True

    return suggest
